"""What the first cell of a self-contained notebook runs. The text of this file's function is copied into it, so it stands on its own."""


def bring_attn_lib_along(wheel: str, sha256: str) -> None:
    """Make attn_lib importable in this kernel, and install the packages that it needs where they are missing.

    Where attn_lib is installed it stays as it is. Else the copy in this cell is unpacked into a temporary folder.

    Args:
        wheel: the package as a wheel, in base64.
        sha256: of the wheel, in hexadecimal digits.
    """
    import atexit
    import base64
    import hashlib
    import importlib.util
    import io
    import os
    import platform
    import shutil
    import subprocess
    import sys
    import tempfile
    import zipfile
    from importlib import metadata

    from packaging.requirements import Requirement  # every Jupyter kernel brings it
    from packaging.specifiers import SpecifierSet

    found = importlib.util.find_spec("attn_lib")
    if found is None or found.origin is None:  # a folder of that name without the package has no origin
        try:
            content = base64.b64decode(wheel)
        except ValueError:
            content = b""
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ValueError("The copy of attn_lib in this cell is damaged: download the notebook again.")
        folder = tempfile.mkdtemp(prefix="attn_lib_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
        sys.path.insert(0, folder)
        # For `!python -m attn_lib` too, which runs in a process of its own.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))

    try:
        about = metadata.metadata("attn-lib")
    except metadata.PackageNotFoundError:  # a clone on the path, which says nothing of what it needs
        return
    if not SpecifierSet(about["Requires-Python"]).contains(platform.python_version(), prereleases=True):
        raise RuntimeError(
            f"attn_lib needs Python {about['Requires-Python']}, and this is {platform.python_version()}."
        )
    missing, outdated = [], []
    for needed in map(Requirement, about.get_all("Requires-Dist") or []):
        if needed.marker and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            if not needed.specifier.contains(metadata.version(needed.name), prereleases=True):
                outdated.append(f"{needed.name}{needed.specifier}")
        except metadata.PackageNotFoundError:
            missing.append(f"{needed.name}{needed.specifier}")
    if not missing + outdated:
        return
    names = ", ".join(missing + outdated)
    print(f"Installing {names}: once, it may take some minutes.", flush=True)
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *missing, *outdated], capture_output=True, text=True, check=False
    )
    if pip.returncode:
        raise RuntimeError(f"pip could not install {names}. It says:\n{(pip.stderr or pip.stdout).strip()}")
    importlib.invalidate_caches()
    if outdated:
        print("An older version was replaced: restart the kernel, then run this notebook from the top.")
