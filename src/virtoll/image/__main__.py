"""`python -m virtoll.image [OPTIONS] [IMAGE ...]`: builds guest images and says where they are."""

from __future__ import annotations

import argparse
import sys

from virtoll.errors import VirtollError
from virtoll.image import IMAGES, GuestImage, image_bill, prepare_image, prepare_parts


def main() -> int:
    """Builds the named images; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m virtoll.image", description="Builds guest images into the cache.")
    parser.add_argument("images", nargs="*", metavar="IMAGE", default=["tiny"], help=f"{' or '.join(IMAGES)}")
    parser.add_argument("--quiet", action="store_true", help="only what is under way")
    parser.add_argument("--offline", action="store_true", help="never use the network")
    parser.add_argument("--parts", action="store_true", help="only what goes in besides the agent")
    options = parser.parse_args()
    try:
        if options.parts:
            prepare_parts(options.images, offline=options.offline, progress=_say)
            return 0
        for name in options.images:
            image = prepare_image(name, kernel=True, offline=options.offline, progress=_say)
            image_bill(image, progress=_say)
            if not options.quiet:
                _show(image)
    except VirtollError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _say(sentence: str) -> None:
    print(f"image: {sentence} ...", flush=True)


def _show(image: GuestImage) -> None:
    kernel = image.kernel
    rows = {
        "image": f"{image.name} {image.digest}",
        "root": image.root,
        "initramfs": f"{image.initramfs} ({image.initramfs.stat().st_size} bytes)",
        "agent": f"{image.agent} sha256:{image.agent_sha256}",
        "kernel": f"{kernel.package} {kernel.version} sha256:{kernel.sha256}",
        "source": f"{kernel.source} sha256:{kernel.package_sha256}",
        "vmlinuz": kernel.vmlinuz,
        "vmlinux": kernel.vmlinux or "none",
        "modules": " ".join(module.stem for module in kernel.modules),
    }
    for title, value in rows.items():
        print(f"{title:10} {value}")


if __name__ == "__main__":
    sys.exit(main())
