"""What every command pays for: the tunnels' face costs no paramiko."""

from __future__ import annotations

import subprocess
import sys


def test_the_public_face_imports_no_paramiko() -> None:
    code = "import sys, devkit.tunnels; sys.exit('paramiko' in sys.modules or 'cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
