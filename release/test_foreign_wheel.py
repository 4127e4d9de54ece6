"""Tests of emulators that are recognized, and of those that are not."""

import unittest

from foreign_wheel import ARCHITECTURES, default_image, starts

#: The kernel's text of an emulator for aarch64, as Debian registers it.
ENTRY = """enabled
interpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P
flags: PF
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""
X86_64, AARCH64 = (ARCHITECTURES[name][1] for name in ("x86_64", "aarch64"))


class Entries(unittest.TestCase):
    """Entries of the kernel's list."""

    def test_an_emulator_is_for_one_architecture(self) -> None:
        """The number in the magic decides."""
        self.assertTrue(starts(ENTRY, AARCH64))
        self.assertFalse(starts(ENTRY, X86_64))

    def test_an_emulator_that_containers_do_not_see_is_none(self) -> None:
        """Without the flag F the kernel looks for its file in the container."""
        self.assertFalse(starts(ENTRY.replace("PF", "P"), AARCH64))

    def test_a_disabled_emulator_is_none(self) -> None:
        """The first line says so."""
        self.assertFalse(starts(ENTRY.replace("enabled", "disabled"), AARCH64))

    def test_interpreters_of_other_files_are_none(self) -> None:
        """By the end of a file's name, or by other first bytes."""
        self.assertFalse(starts("enabled\ninterpreter /usr/bin/wine\nflags: F\nextension .exe\n", AARCH64))
        self.assertFalse(starts(ENTRY.replace("7f454c46", "cafebabe"), AARCH64))


class Images(unittest.TestCase):
    """The image of the container."""

    def test_it_is_that_of_images_with_python(self) -> None:
        """From the list of base images."""
        self.assertIn("/python:", default_image())


if __name__ == "__main__":
    unittest.main()
