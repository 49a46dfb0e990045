"""One guest image for all platforms (docs/design: same agent, same kernel, in the form that each platform takes).

`prepare_image` gives it from a content-addressed cache or builds it. Nothing here needs root, installs anything on the
host, or imports more of Virtoll than its errors.
"""

from __future__ import annotations

from virtoll.image.bootdisk import boot_disk
from virtoll.image.cache import Cache, default_cache, file_digest
from virtoll.image.forms import Form, FormName, image_form, made_forms
from virtoll.image.guest import (
    IMAGES,
    NO_KERNEL_VARIABLE,
    GuestImage,
    MachineParts,
    prepare_image,
    prepare_parts,
    with_kernel,
    with_kernel_if_there,
)
from virtoll.image.inventory import image_bill
from virtoll.image.kernel import GuestKernel
from virtoll.image.kernel_source import KernelDownload, kernel_download
from virtoll.image.tools import FULL, RECIPES, Recipe

__all__ = [
    "FULL",
    "IMAGES",
    "NO_KERNEL_VARIABLE",
    "RECIPES",
    "Cache",
    "Form",
    "FormName",
    "GuestImage",
    "GuestKernel",
    "KernelDownload",
    "MachineParts",
    "Recipe",
    "boot_disk",
    "default_cache",
    "file_digest",
    "image_bill",
    "image_form",
    "kernel_download",
    "made_forms",
    "prepare_image",
    "prepare_parts",
    "with_kernel",
    "with_kernel_if_there",
]
