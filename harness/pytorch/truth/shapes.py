"""The operators and messages of the configurations, as points of a bench: what the profile rests on."""

from typing import Iterable, Iterator

from bench_points import Point, both_ways, linear_points, point

from .configurations import Configuration

DTYPE = "fp32"


def operator_points(configuration: Configuration) -> Iterator[Point]:
    """What one rank computes, layer by layer, with the shapes of models/rank/."""
    model, split = configuration.model, configuration.tensor_parallel
    rows = configuration.micro_batch * configuration.sequence_length
    hidden, ffn, heads = model.hidden, 4 * model.hidden // split, model.heads // split
    width = heads * model.head_dim
    # GPT-2's layers have biases; its head has none, which matters less than one kind of row for all.
    for inputs, outputs in ((hidden, 3 * width), (width, hidden), (hidden, ffn), (ffn, hidden),
                            (hidden, model.vocabulary // split)):
        yield from linear_points(rows, inputs, outputs, DTYPE, "linear")
    yield from both_ways("attention", DTYPE, batch=configuration.micro_batch, heads=heads,
                         q_len=configuration.sequence_length, kv_len=configuration.sequence_length,
                         head_dim_qk=model.head_dim, head_dim_v=model.head_dim)
    yield from both_ways("layer_norm", DTYPE, rows=rows, cols=hidden)
    yield from both_ways("add", DTYPE, rows=rows, cols=hidden)
    yield from both_ways("gelu", DTYPE, rows=rows, cols=ffn)
    yield from both_ways("embedding", DTYPE, rows=rows, cols=hidden, vocabulary=model.vocabulary // split)
    yield from both_ways("cross_entropy", DTYPE, rows=rows, cols=model.vocabulary // split)
    yield point("optimizer", DTYPE, rows=optimizer_elements(configuration))
    if configuration.data_parallel > 1:
        yield point("copy", DTYPE, rows=layer_parameters(configuration))
        yield point("copy", DTYPE, rows=root_parameters(configuration))


def layer_parameters(configuration: Configuration) -> int:
    """Weights, biases and norms of one layer on one rank, before any data-parallel sharding."""
    hidden, split = configuration.model.hidden, configuration.tensor_parallel
    return 12 * hidden * hidden // split + 7 * hidden // split + 6 * hidden


def root_parameters(configuration: Configuration) -> int:
    """Both embeddings, the final norm and the head."""
    model, split = configuration.model, configuration.tensor_parallel
    return (2 * model.vocabulary // split + model.positions + 2) * model.hidden


def optimizer_elements(configuration: Configuration) -> int:
    whole = configuration.model.layers * layer_parameters(configuration) + root_parameters(configuration)
    return whole // configuration.ranks if configuration.parallelism == "fsdp" else whole


def collective_points(configuration: Configuration) -> Iterator[Point]:
    model = configuration.model
    layer, root = (4 * count for count in (layer_parameters(configuration), root_parameters(configuration)))
    rows = configuration.micro_batch * configuration.sequence_length
    if configuration.parallelism == "ddp":
        yield point("all_reduce", DTYPE, size_bytes=model.layers * layer + root)
    if configuration.parallelism == "fsdp":
        for size in (layer, root):
            yield point("all_gather", DTYPE, size_bytes=size)
            yield point("reduce_scatter", DTYPE, size_bytes=size)
    if configuration.parallelism == "tp":
        yield point("all_reduce", DTYPE, size_bytes=4 * rows * model.hidden)


def all_points(configurations: Iterable[Configuration]) -> tuple[list[Point], list[Point]]:
    """Operators and collectives of all configurations, each once."""
    operators, messages = {}, {}
    for configuration in configurations:
        operators.update(dict.fromkeys(operator_points(configuration)))
        messages.update(dict.fromkeys(collective_points(configuration)))
    return list(operators), list(messages)
