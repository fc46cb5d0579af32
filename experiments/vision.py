"""The paper's vision study on folders of ImageNet, and one that runs without them.

    python experiments/vision.py                     # CIFAR-10 and Fashion-MNIST, 20 minutes, once
    python experiments/vision.py --quick             # tiny folders of ImageNet's layout, Fashion-MNIST
    python experiments/vision.py --imagenet DIR --imagenet-r DIR --imagenet-c DIR --networks all
    python experiments/vision.py --imagenet-c DIR --corruption snow --networks vit_b_16 convnext_tiny
    python experiments/vision.py --published  # figures from the paper's printed values, in seconds

The networks are those of the paper (`vision_networks.py`); torchvision downloads their weights. Features
and scores are extracted once into the cache folder by ``epiloss.extract``, so an interrupted run resumes
where it stopped.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import vision_networks
from protocol import MissingError, Section, options, table, write_section


def sections(given: Namespace) -> Iterator[Section]:
    """Yield the sections that were requested."""
    import vision_folders as folders

    if given.quick:
        import vision_quick

        yield from vision_quick.sections(given)
    asked = [
        *([] if given.imagenet is None else [folders.imagenet(given.imagenet)]),
        *([] if given.imagenet_r is None else [folders.imagenet_r(given.imagenet_r, mask=given.mask)]),
        *(
            []
            if given.imagenet_c is None
            else [folders.imagenet_c(given.imagenet_c, given.corruption, seed=given.seed)]
        ),
    ]
    if asked:
        import vision_imagenet

        for images in asked:
            yield vision_imagenet.section(
                images,
                given.networks,
                cache=given.cache,
                output=given.output,
                pictures=given.images,
                seed=given.seed,
                preprocess=given.preprocess,
            )
        return
    import vision_here
    import vision_many

    if not given.quick:
        print(f"{folders.WHERE}\nWithout them: CIFAR-10 and Fashion-MNIST.\n", file=sys.stderr)
    for study in (vision_many, vision_here):
        try:
            yield from study.sections(given)
        except MissingError as missing:
            if not given.quick:  # the tiny folders have shown that the study runs
                raise
            print(f"vision: left out, {missing}", file=sys.stderr)


def published(given: Namespace) -> None:
    """Count the paper's statements in its printed values, and redraw its figures."""
    import published_page
    from published_statements import statements
    from study_verdicts import as_table

    quick = given.output / published_page.PAGE.name if given.quick else published_page.PAGE
    target = published_page.write(given.page or quick, given.images)
    print(f"{as_table(statements(), 'counted in print')}\n\nwritten: {target}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study, print its tables, and write its sections."""
    import matplotlib

    matplotlib.use("Agg")
    parser = options("Grouping loss of image classifiers.")
    parser.add_argument("--imagenet", type=Path, metavar="DIR", help="ImageNet-1K validation")
    parser.add_argument("--imagenet-r", type=Path, metavar="DIR", help="ImageNet-R")
    parser.add_argument("--imagenet-c", type=Path, metavar="DIR", help="ImageNet-C")
    parser.add_argument("--corruption", default="merged", help="one of ImageNet-C's; default: merged")
    parser.add_argument(
        "--networks", nargs="+", help="small (default), best, all, or torchvision's names"
    )
    parser.add_argument("--preprocess", choices=["paper", "weights"], default="paper", help="crops")
    parser.add_argument(
        "--mask", action="store_true", help="ImageNet-R: the softmax over its own 200 classes"
    )
    parser.add_argument(
        "--published", action="store_true", help="only the paper's figures, from its printed values"
    )
    parser.add_argument("--page", type=Path, help="of --published; default docs/studies/published.md")
    given = parser.parse_args(arguments)
    try:
        given.networks = vision_networks.chosen(given.networks)
    except ValueError as error:
        parser.error(str(error))
    if given.published:
        published(given)
        return 0
    try:
        for section in sections(given):
            print(f"{section.title}\n\n{table(section.lines)}\n\n{section.text}\n\n{section.extra}\n")
            write_section(section, given.output)
    except MissingError as missing:
        print(f"vision: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
