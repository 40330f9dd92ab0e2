"""orchestrator/plan/shapes.py: sizes, prompts, memory formats, and reasons for exclusions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config import catalogue, input_sizes
from orchestrator.config.catalogue import is_probe
from orchestrator.plan import shapes
from protocol.cell import Generation, InputSpec, MemoryFormat, ModelSpec, Sizes, SizeUnit, Workload
from tests.fakes.configurations import configuration


def model(name: str, kind: str, *, sizes: Sizes | None, **fields: object) -> ModelSpec:
    """A model that is never built."""
    spec = {"title": name, "family": "none", "inputs": (), "parameters": 1, "inference_gflops": 1.0, "memory_mb": 1}
    return ModelSpec(name=name, type=kind, sizes=sizes, **(spec | fields))


EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)
IMAGES = (InputSpec(name="images", shape=("batch", 3, "size", "size")),)
TEXT = model("text", "transformer", sizes=Sizes(unit=SizeUnit.TOKENS, default=128, largest=512))
WRITER = model(
    "writer",
    "transformer",
    sizes=Sizes(unit=SizeUnit.TOKENS, default=256, largest=1024),
    generation=Generation(prompt_tokens=512, new_tokens=64),
)
PICTURES = model("pictures", "cnn", sizes=Sizes(unit=SizeUnit.PIXELS, default=224, smallest=32), inputs=IMAGES)
PATCHES = model(
    "patches", "transformer", sizes=Sizes(unit=SizeUnit.PIXELS, default=224, smallest=16, step=16), inputs=IMAGES
)
LATENT = model("latent", "generative", sizes=Sizes(unit=SizeUnit.PIXELS, default=256, smallest=64, largest=1024))
PLAIN = model("plain", "other", sizes=None)
OWN = model("own", "other", sizes=None, inputs=(InputSpec(name="x", shape=("batch", 3, 64, 64)),))


def found(spec: ModelSpec, workload: Workload, **changes: object) -> list[tuple[object, ...]]:
    """(batch size, input size, new tokens) of every shape."""
    asked = configuration(workloads=(workload,), **changes)
    return [(shape.batch_size, shape.input_size, shape.new_tokens) for shape in shapes.of(spec, asked)]


def why(spec: ModelSpec, **changes: object) -> list[str]:
    """The reasons for its exclusions."""
    return list(shapes.exclusions(spec, configuration(**changes)))


def sizes(spec: ModelSpec, **changes: object) -> list[str]:
    """The numbers in the reasons: possible sizes, and the excluded ones."""
    return re.findall(r"\d+", " ".join(why(spec, **changes)))


def test_a_model_keeps_its_size_unless_one_is_requested() -> None:
    """A model without sizes has none; sizes in the other unit do not concern it."""
    asked = {"batch_sizes": (1,), "sequence_lengths": (64, 512), "input_sizes": (512,)}
    assert found(TEXT, Workload.INFERENCE, batch_sizes=(1,)) == [(1, 128, None)]
    assert found(TEXT, Workload.INFERENCE, **asked) == [(1, 64, None), (1, 512, None)]
    assert found(PICTURES, Workload.INFERENCE, **asked) == [(1, 512, None)]
    assert found(PLAIN, Workload.INFERENCE, **asked) == [(1, None, None)]
    assert why(TEXT, **asked) == why(PICTURES, **asked) == why(PLAIN, **asked) == []


def test_every_batch_size_meets_every_input_size() -> None:
    """Training too, with batch sizes of its own; loading only at the first size."""
    asked = {"batch_sizes": (1, 8), "training_batch_sizes": (4,), "input_sizes": (224, 512)}
    assert found(PICTURES, Workload.INFERENCE, **asked) == [(b, size, None) for b in (1, 8) for size in (224, 512)]
    assert found(PICTURES, Workload.TRAINING, **asked) == [(4, 224, None), (4, 512, None)]
    assert found(PICTURES, Workload.LOAD, **asked) == [(1, 224, None)]


def test_an_impossible_size_is_excluded_with_a_reason() -> None:
    """With the sizes it takes; its other sizes are measured."""
    asked = {"batch_sizes": (1,), "sequence_lengths": (128, 600, 4096), "input_sizes": (224, 600)}
    assert found(TEXT, Workload.INFERENCE, **asked) == [(1, 128, None)]
    assert sizes(TEXT, **asked) == ["1", "512", "600", "4096"]
    assert found(PATCHES, Workload.INFERENCE, **asked) == [(1, 224, None)]
    assert sizes(PATCHES, **asked) == ["16", "16", "600"]
    assert found(TEXT, Workload.LOAD, sequence_lengths=(600,)) == []
    assert sizes(TEXT, sequence_lengths=(600,)) == ["1", "512", "600"]


@given(
    st.builds(
        Sizes,
        unit=st.sampled_from(SizeUnit),
        default=st.just(64),
        smallest=st.integers(1, 64),
        largest=st.none() | st.integers(64, 2048),
        step=st.integers(1, 64),
        only=st.sets(st.integers(1, 2048), max_size=4).map(tuple),
    ),
    st.lists(st.integers(1, 4096), min_size=1, max_size=5, unique=True).map(tuple),
)
def test_requested_sizes_are_measured_or_excluded(sizes: Sizes, asked: tuple[int, ...]) -> None:
    """Every requested size is measured or named in the reason."""
    spec = model("some", "other", sizes=sizes)
    changes = {"sequence_lengths": asked, "input_sizes": asked}
    measured = [size for _, size, _ in found(spec, Workload.TRAINING, training_batch_sizes=(1,), **changes)]
    said = why(spec, **changes)
    refused = [int(word) for sentence in said for word in sentence.rpartition(" not ")[2].split(", ")]
    assert sorted([*measured, *refused]) == sorted(asked)
    assert all(input_sizes.is_possible(sizes, size) for size in measured)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (Sizes(unit=SizeUnit.PIXELS, default=64, smallest=32), "32 pixels .*more"),
        (Sizes(unit=SizeUnit.PIXELS, default=64, smallest=32, step=32), "multiples .*32 .*32 pixels.*"),
        (Sizes(unit=SizeUnit.TOKENS, default=8, largest=512), "1 .*512 tokens"),
        (
            Sizes(unit=SizeUnit.PIXELS, default=64, smallest=32, largest=96, step=32),
            "multiples .*32 .*32 .*96 pixels",
        ),
        (Sizes(unit=SizeUnit.PIXELS, default=64, smallest=64, largest=64), "64 pixels.*"),
        (Sizes(unit=SizeUnit.PIXELS, default=64, smallest=64, largest=256, only=(64, 128, 256)), "64, 128, 256 pixels"),
    ],
)
def test_sizes_in_words(sizes: Sizes, words: str) -> None:
    """For messages."""
    assert re.fullmatch(words, input_sizes.in_words(sizes))


def test_generation_is_measured_of_models_that_can_write() -> None:
    """At its own batch sizes; the input size is the prompt's."""
    asked = {"batch_sizes": (1, 8), "generation_batch_sizes": (2, 4)}
    assert found(WRITER, Workload.GENERATION, **asked) == [(2, 512, 64), (4, 512, 64)]
    assert found(WRITER, Workload.INFERENCE, **asked) == [(1, 256, None), (8, 256, None)]
    assert found(TEXT, Workload.GENERATION, **asked) == []


def test_the_sequence_length_is_that_of_the_prompt() -> None:
    """If the model has room for the new tokens."""
    asked = {"sequence_lengths": (128, 960, 961, 1024, 2048)}
    assert found(WRITER, Workload.GENERATION, **asked) == [(1, 128, 64), (1, 960, 64)]
    assert sizes(WRITER, workloads=(Workload.GENERATION,), **asked) == ["1", "1024", "2048", "64", "961", "1024"]
    assert why(WRITER, workloads=(Workload.INFERENCE,), sequence_lengths=(1024,)) == []


def test_missing_generation_is_an_exclusion_only_by_itself() -> None:
    """With other phases its missing generation is no exclusion."""
    assert len(why(TEXT, workloads=(Workload.GENERATION,))) == 1
    assert why(TEXT) == []


@pytest.mark.parametrize(
    ("spec", "default", "can_choose"),
    [
        (PICTURES, MemoryFormat.CHANNELS_LAST, True),
        (LATENT, MemoryFormat.CHANNELS_LAST, True),
        (PATCHES, MemoryFormat.CONTIGUOUS, True),
        (OWN, MemoryFormat.CONTIGUOUS, True),
        (TEXT, MemoryFormat.CONTIGUOUS, False),
        (PLAIN, MemoryFormat.CONTIGUOUS, False),
    ],
    ids=lambda value: value.name if isinstance(value, ModelSpec) else "",
)
def test_convolutions_use_channels_last(spec: ModelSpec, default: MemoryFormat, can_choose: bool) -> None:
    """Unless another format is requested; a model without images has no choice."""
    assert shapes.memory_format(spec, None) is default
    for wanted in MemoryFormat:
        assert shapes.memory_format(spec, wanted) is (wanted if can_choose else MemoryFormat.CONTIGUOUS)


def test_all_cells_of_a_model_have_one_memory_format() -> None:
    """Loading too."""
    for spec in (PICTURES, PATCHES, TEXT, WRITER):
        assert len({shape.memory_format for shape in shapes.of(spec, configuration())}) == 1


@pytest.mark.parametrize("spec", catalogue.load().models, ids=lambda spec: spec.name)
def test_shipped_models_take_their_defaults(spec: ModelSpec) -> None:
    """Nothing of a shipped model is excluded by default."""
    assert why(spec, workloads=EVERYTHING) == []
    if spec.sizes is not None:
        assert input_sizes.is_possible(spec.sizes, spec.sizes.default)
    phases = {shape.workload for shape in shapes.of(spec, configuration(workloads=EVERYTHING))}
    writes = set() if spec.generation is None else {Workload.GENERATION}
    assert phases == {Workload.LOAD, Workload.INFERENCE, Workload.TRAINING} | writes or is_probe(spec)
