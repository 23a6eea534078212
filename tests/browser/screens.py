"""The screens that views are looked at on."""

SIZES = {"projector": (1280, 720), "large": (1920, 1080), "phone": (390, 844)}
SCHEMES = ("light", "dark")
