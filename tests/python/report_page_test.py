"""The pages that foreplan writes, in a real browser."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser

PROGRAM = os.environ["FOREPLAN_PROGRAM"]
ROOT = pathlib.Path(os.environ["FOREPLAN_DATA"])
SCENARIO = str(ROOT / "scenarios" / "llama3-70b-64xh100.yaml")
KEYS = {"right": "\ue014", "end": "\ue010"}


def foreplan(*arguments, code=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


@unittest.skipIf(browser.MISSING, browser.WHY_NOT)
class PageTest(unittest.TestCase):
    """What holds for every page; classes below say which."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def check_everywhere(self, name):
        """Widths and colour schemes: no complaint, nothing loaded, nothing cut off, all legible."""
        for width in (browser.PHONE, browser.DESKTOP):
            for dark in (False, True):
                with self.subTest(page=name, width=width, dark=dark):
                    page = self.browser
                    page.open(self.path(name), width, dark)
                    page.picture(f"{name}-{width}-{'dark' if dark else 'light'}")
                    self.assertEqual(page.complaints(), [])
                    self.assertEqual([a for a in page.loaded() if not a.startswith("file:")], [])
                    self.assertLessEqual(page.overflow(), 0)
                    self.assertGreaterEqual(page.weakest_contrast()[0], 4.5, page.weakest_contrast())
                    self.assertEqual(page.nameless(), [])
        self.assertLess(os.path.getsize(self.path(name)), 2_000_000)

    def check_keyboard(self, name, wanted):
        self.browser.open(self.path(name), browser.DESKTOP)
        stops = self.browser.tab_stops()
        self.assertEqual([stop for stop, seen in stops if not seen], [])
        self.assertLessEqual(set(wanted), {stop for stop, _ in stops})


class ReportPage(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        foreplan("report", SCENARIO, "--html", cls.path("report.html"))
        text = pathlib.Path(cls.path("report.html")).read_text()
        start = text.index('id="data">') + len('id="data">')
        cls.data = json.loads(text[start:text.index("</script>", start)])

    def setUp(self):
        self.browser.open(self.path("report.html"), browser.DESKTOP)

    def column(self, name):
        at = self.data["plans"]["columns"].index(name)
        return [row[at] for row in self.data["plans"]["rows"]]

    def text(self, selector):
        return self.browser.find(selector).text

    def dots(self):
        return self.browser.run("return document.querySelectorAll('#scatter circle:not(.chosen)').length")

    def test_is_sound_on_phone_and_desktop_light_and_dark(self):
        self.check_everywhere("report.html")

    def test_every_control_is_reached_by_the_keyboard_and_shows_its_focus(self):
        self.check_keyboard("report.html", ["launch-text", "copy", "tp", "zoom", "svg"])

    def test_headings_make_an_outline_with_one_top(self):
        levels = self.browser.run("return [...document.querySelectorAll('h1,h2,h3')].filter((h) => h.checkVisibility())"
                                  ".map((h) => +h.tagName[1])")
        self.assertEqual(levels.count(1), 1)
        self.assertTrue(all(b - a <= 1 for a, b in zip(levels, levels[1:])), levels)

    def test_shows_the_answer(self):
        best = self.data["best"]
        self.assertIn(best["text"], self.text("#answer"))
        self.assertIn(f"{best['step_time_s']:.1f} s", self.text("#figures"))
        self.assertIn("--micro-batch-size", self.text("#launch-text"))
        self.assertIn("gemm", self.text("#time"))
        self.assertIn("activations", self.text("#memory"))
        self.assertIn("SHA-256", self.text("#provenance"))

    def test_draws_a_dot_for_every_plan_and_filters_them(self):
        self.assertEqual(self.dots(), len(self.data["plans"]["rows"]))
        for value in sorted(set(self.column("tp"))):
            self.browser.run("const s = document.querySelector('select[name=tp]'); s.value = arguments[0];"
                             "s.dispatchEvent(new Event('change', {bubbles: true}));", str(value))
            self.assertEqual(self.dots(), self.column("tp").count(value))
        self.browser.find("#filters button[type=reset]").click()
        self.browser.settle()
        self.assertEqual(self.dots(), len(self.data["plans"]["rows"]))

    def test_filters_are_used_with_the_mouse(self):
        select = self.browser.find("select[name=pp]")
        value = str(self.column("pp")[0])
        select.find_element("css selector", f"option[value='{value}']").click()
        self.assertEqual(self.dots(), self.column("pp").count(int(value)))

    def test_pointing_at_the_best_plan_names_it(self):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser.driver).move_to_element(self.browser.find("circle.best")).perform()
        self.browser.settle()
        best = self.column("label")[self.column("rank").index(1)]
        self.assertIn(best, self.text("#plan-readout"))
        self.assertIn("rank 1", self.text("#scatter .tip"))
        self.browser.picture("hover")
        ActionChains(self.browser.driver).move_to_element(self.browser.find("h1")).perform()
        self.browser.settle()
        self.assertEqual(self.browser.driver.find_elements("css selector", "#scatter .tip"), [])

    def test_arrow_keys_go_from_the_fastest_plan_to_the_slowest(self):
        svg = self.browser.find("#scatter svg")
        times = sorted(zip(self.column("step_time_s"), self.column("label")))
        svg.send_keys(KEYS["right"])
        self.assertIn(times[0][1], self.text("#plan-readout"))
        svg.send_keys(KEYS["end"])
        self.assertTrue(any(label in self.text("#plan-readout")
                            for time, label in times if time == times[-1][0]))

    def test_copies_the_launch_arguments(self):
        page = self.browser
        page.driver.execute_cdp_cmd("Browser.grantPermissions", {
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        page.find("#copy").click()
        page.settle()
        self.assertEqual(self.text("#copied"), "Copied.")
        copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        self.assertEqual(copied, " \\\n".join(self.data["launch_arguments"]))

    def test_timeline_is_drawn_magnified_and_read_out(self):
        from selenium.webdriver.common.action_chains import ActionChains

        colours = "const c = document.querySelector('#timeline-figure canvas'), g = c.getContext('2d');" \
                  "const d = g.getImageData(0, 0, c.width, c.height).data, s = new Set();" \
                  "for (let i = 0; i < d.length; i += 40) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size;"
        self.assertGreater(self.browser.run(colours), 3)
        before = self.browser.run("return document.querySelector('canvas').toDataURL()")
        self.browser.run("const z = document.getElementById('zoom'); z.value = 80; z.dispatchEvent(new Event('input'));")
        self.assertNotEqual(self.browser.run("return document.querySelector('canvas').toDataURL()"), before)
        self.assertFalse(self.browser.run("return document.getElementById('pan').disabled"))
        canvas = self.browser.find("#timeline-figure canvas")
        ActionChains(self.browser.driver).move_to_element_with_offset(
            canvas, 50 - canvas.size["width"] // 2, 8 - canvas.size["height"] // 2).perform()
        self.browser.settle()
        self.assertIn("stage 0 at", self.text("#slot-readout"))
        self.assertIn("forward of micro-batch 0", self.text("#slot-readout"))
        self.browser.picture("timeline-zoomed")

    def test_sensitivity_names_what_the_step_hangs_on(self):
        self.assertIn("matrix multiplications", self.text("#sensitivity-groups"))
        shares = [group["share"] for group in self.data["sensitivity"]["groups"]]
        self.assertEqual(shares, sorted(shares, reverse=True))
        self.assertLess(sum(shares), 1.02)


class OtherReportPages(PageTest):
    def test_of_a_calibrated_moe_plan(self):
        foreplan("report", str(ROOT / "scenarios" / "mixtral-8x7b-64xa100.yaml"), "--profile", "calibrated", "--html",
                 self.path("moe.html"))
        self.check_everywhere("moe.html")
        self.assertIn("had not seen", self.browser.find("#accuracy").text)

    def test_of_a_stored_run(self):
        foreplan("sweep", SCENARIO, "--db", self.path("runs.db"))
        foreplan("report", "1", "--db", self.path("runs.db"), "--html", self.path("stored.html"))
        self.check_everywhere("stored.html")
        self.assertIn("1 (sweep), finished", self.browser.find("#provenance").text)

    def test_of_a_question_that_no_plan_answers(self):
        foreplan("report", SCENARIO, "--cluster", "8xH100", "--html", self.path("none.html"), code=1)
        self.check_everywhere("none.html")
        self.assertIn("No plan fits", self.browser.find("#answer").text)
        self.assertIn("nearest plan that fits", self.browser.find("#h-plan").text)

    def test_shows_hostile_text_as_text(self):
        title = "</script><img src=x onerror=\"document.title='hit'\"> <b>bold</b>"
        text = f"scenario: {json.dumps(title)}\nmodel: llama3-8b\ncluster: 8xH100\n" \
               "training: {sequence_length: 8192 tokens, global_batch: 128 sequences}\nnote: '<script>alert(1)</script>'\n"
        pathlib.Path(self.path("s.yaml")).write_text(text)
        foreplan("report", self.path("s.yaml"), "--html", self.path("hostile.html"))
        self.check_everywhere("hostile.html")
        self.assertEqual(self.browser.find("h1").text, title)
        self.assertEqual(self.browser.run("return document.querySelectorAll('img, b').length"
                                          " - document.querySelectorAll('#degrees b').length"), 0)
        self.assertEqual(self.browser.run("return document.getElementById('scenario-text').textContent"), text)


class CalibrationPage(PageTest):
    """Of a machine of one's own, which is quick: 60 GEMMs at 1.2 times what the shipped profile says."""

    def test_is_sound_on_phone_and_desktop_light_and_dark(self):
        rows = ["device,library,op,m,n,k,dtype_in,time_s"]
        for i in range(60):
            m, n, k = 256 * (1 + i % 10), 1024 * (1 + i % 6), 512 * (2 + i % 7)
            rows.append(f"H100-SXM5-80GB,mine,linear,{m},{n},{k},bf16,{2 * m * n * k / 400e12 + 8e-6 + i * 1e-9:.9f}")
        pathlib.Path(self.path("mine.csv")).write_text("\n".join(rows) + "\n")
        foreplan("import", self.path("mine.csv"), "--db", self.path("mine.db"))
        foreplan("calibrate", "--device", "H100", "--db", self.path("mine.db"), "--report",
                 self.path("calibration.html"))
        self.check_everywhere("calibration.html")
        self.assertEqual(self.browser.run("return document.querySelectorAll('svg[role=img]').length"), 2)
        self.assertIn("GEMM: predicted against measured", self.browser.find("main").text)
        self.assertNotIn("\x1b", pathlib.Path(self.path("calibration.html")).read_text())


if __name__ == "__main__":
    unittest.main()
