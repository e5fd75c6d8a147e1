"""A headless Chromium for tests of pages: size, colour scheme, what it complained about and loaded."""

import json
import os
import pathlib
import shutil

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
MISSING = webdriver is None or CHROMIUM is None or DRIVER is None
WHY_NOT = "no Chromium to look at pages with: scripts/setup.sh browser"

PHONE, DESKTOP = 390, 1440

# Every piece of text that is seen, with its colour and the nearest opaque background behind it.
CONTRASTS = """
const luminance = (c) => {
  const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const opaque = (c) => c !== 'transparent' && !/rgba\\(.*, 0\\)/.test(c);
const out = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
  if (!text || !element.checkVisibility() || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'OPTION'].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const colour = element instanceof SVGElement ? style.fill : style.color;
  let behind = element;
  while (behind && !opaque(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const paper = behind ? getComputedStyle(behind).backgroundColor : 'rgb(255, 255, 255)';
  const [a, b] = [luminance(colour), luminance(paper)].sort((x, y) => y - x);
  out.push([(a + 0.05) / (b + 0.05), text.slice(0, 40)]);
}
return out;
"""


class Browser:
    """One Chromium. `open` shows a file; the methods below speak about the page that is shown."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--force-color-profile=srgb", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)

    def close(self):
        self.driver.quit()

    def open(self, file, width, dark=False):
        self.width = width
        command = self.driver.execute_cdp_cmd
        command("Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE})
        command("Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.complaints(), self.loaded()  # of the page before
        self.driver.get(pathlib.Path(file).resolve().as_uri())
        self.settle()

    def settle(self):
        """Until everything that a change set off is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def loaded(self):
        """Addresses that were asked for since the last call."""
        addresses = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                addresses.append(message["params"]["request"]["url"])
        return addresses

    def weakest_contrast(self):
        return min(self.run(CONTRASTS))

    def overflow(self):
        """Pixels by which the page is wider than its window."""
        return self.run("return document.documentElement.scrollWidth") - self.width

    def nameless(self):
        """Roles of controls and pictures that a screen reader could not name."""
        roles = {"button", "slider", "combobox", "img", "image", "region", "form", "application", "Canvas"}
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [node["role"]["value"] for node in nodes
                if not node.get("ignored") and node["role"]["value"] in roles
                and not node.get("name", {}).get("value")]

    def tab_stops(self):
        """[element, whether its focus can be seen] of every stop of the Tab key."""
        self.run("document.activeElement.blur(); window.scrollTo(0, 0);")
        stops = []
        for _ in range(100):
            self.driver.switch_to.active_element.send_keys("\ue004")
            stop = self.run("const e = document.activeElement, s = getComputedStyle(e);"
                            "if (e === document.body || e.dataset.visited) return null;"
                            "e.dataset.visited = 'yes';"
                            "return [e.id || e.name || e.tagName,"
                            " s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2];")
            if stop is None:
                break
            stops.append(stop)
        return stops

    def picture(self, name):
        """The whole page as a PNG, where FOREPLAN_SCREENSHOTS names a folder."""
        folder = os.environ.get("FOREPLAN_SCREENSHOTS")
        if not folder:
            return
        import base64

        data = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})["data"]
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(folder) / f"{name}.png").write_bytes(base64.b64decode(data))
