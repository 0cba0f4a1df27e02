"""The adb daemon of the virtual phone: the device's end of the adb wire protocol.

Written against the behaviour of Android's own adbd (packages/modules/adb, 2024). It runs inside the
phone, after its root was changed, so nothing here may import a module late: `daemon` loads all of them.
"""
