"""That the launches of a run were made with different software, as where another environment went on with it.

It changes no verdict: what was measured was measured. It is said before any figure, in text, page and Markdown.
"""

from orchestrator.figures.report import Metadata


def words(data: Metadata) -> str:
    """What differs between launches, and what that means; empty where all ran on one stack."""
    of_launches = {
        "PyTorch": data.pytorch_version,
        "CUDA": data.cuda_version,
        "cuDNN": data.cudnn_version,
        "torchvision": data.torchvision_version,
        "transformers": data.transformers_version,
        "Python": data.python_version,
    }
    several = [name for name, versions in of_launches.items() if versions and ", " in versions]
    drivers = {segment.driver_version for segment in data.segments if segment.launches and segment.driver_version}
    several += ["driver"] if len(drivers) > 1 else []
    if not several:
        return ""
    return f"launches of this run differ in {', '.join(several)}: their figures are not comparable with each other"
