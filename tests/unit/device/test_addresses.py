"""A phone's addresses, in the shapes that Androids of different ages and makers print."""

from __future__ import annotations

import pytest

from devkit.device.addresses import parse_addresses

ROUTE = "192.168.86.0/24 dev wlan0 proto kernel scope link src 192.168.86.37 \n"
OLD_ROUTE = """\
default via 192.168.0.1 dev wlan0  metric 307
192.168.0.0/24 dev wlan0  proto kernel  scope link  src 192.168.0.14  metric 307
192.168.0.1 dev wlan0  scope link  metric 307
"""
ONE_LINE = """\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
15: rmnet_data1    inet 10.64.3.9/30 scope global rmnet_data1\\       valid_lft forever preferred_lft forever
24: wlan0    inet 192.168.1.101/24 brd 192.168.1.255 scope global wlan0\\       valid_lft forever
"""
SEVERAL_LINES = """\
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
    inet6 ::1/128 scope host
2: dummy0: <BROADCAST,NOARP,UP,LOWER_UP> mtu 1500 qdisc noqueue state UNKNOWN group default
    inet6 fe80::8c6a:97ff:fe1c:2a6b/64 scope link
23: wlan1: <BROADCAST,MULTICAST> mtu 1500 qdisc mq state DOWN group default qlen 3000
    inet 192.168.99.1/24 brd 192.168.99.255 scope global wlan1
24: wlan0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 3000
    link/ether 02:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff
    inet 10.0.0.23/8 brd 10.255.255.255 scope global wlan0
       valid_lft forever preferred_lft forever
    inet6 fe80::a6b1:c2ff:fe30:1122/64 scope link
"""
IFCONFIG = """\
rmnet_data0 Link encap:UNSPEC
          inet addr:100.71.2.3  Mask:255.255.255.252
          UP RUNNING  MTU:1500  Metric:1

wlan0     Link encap:Ethernet  HWaddr 02:00:00:00:00:00  Driver cnss_pci
          inet addr:192.168.31.7  Bcast:192.168.31.255  Mask:255.255.255.0
          inet6 addr: fe80::1/64 Scope: Link
"""
TOOLBOX = "wlan0: ip 192.168.2.5 mask 255.255.255.0 flags [up broadcast running multicast]\n"
NETCFG = """\
lo       UP                                   127.0.0.1/8   0x00000049 00:00:00:00:00:00
rmnet0   DOWN                                   0.0.0.0/0   0x00000000 00:00:00:00:00:00
wlan0    UP                                192.168.3.20/24  0x00001043 00:11:22:33:44:55
"""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (ROUTE, "192.168.86.37"),
        (ROUTE.replace("\n", "\r\n"), "192.168.86.37"),
        (OLD_ROUTE, "192.168.0.14"),
        ("default via 192.168.5.1 dev wlan0 proto dhcp src 192.168.5.4 metric 600", "192.168.5.4"),
        (ONE_LINE, "192.168.1.101"),
        (SEVERAL_LINES, "10.0.0.23"),
        (IFCONFIG, "192.168.31.7"),
        (TOOLBOX, "192.168.2.5"),
        (NETCFG, "192.168.3.20"),
        ("dhcp-wlan0 192.168.4.9\n", "192.168.4.9"),
    ],
)
def test_the_one_address_of_the_wifi(text: str, address: str) -> None:
    assert [(each.address, each.interface, each.kind) for each in parse_addresses(text)] == [
        (address, "wlan0", "Wi-Fi")
    ]


def test_several_interfaces_the_likeliest_first() -> None:
    text = """\
10.11.0.0/16 dev tun0 proto kernel scope link src 10.11.5.6
10.100.7.0/30 dev rmnet_data0 proto kernel scope link src 10.100.7.2
192.168.42.0/24 dev rndis0 proto kernel scope link src 192.168.42.129
192.168.43.0/24 dev swlan0 proto kernel scope link src 192.168.43.1
192.168.1.0/24 dev wlan0 proto kernel scope link src 192.168.1.8
172.16.0.0/16 dev eth0 proto kernel scope link src 172.16.0.9
169.254.0.0/16 dev eth1 proto kernel scope link src 169.254.7.7
"""
    assert [(each.kind, each.address) for each in parse_addresses(text)] == [
        ("Wi-Fi", "192.168.1.8"),
        ("Ethernet", "172.16.0.9"),
        ("hotspot", "192.168.43.1"),
        ("VPN", "10.11.5.6"),
        ("USB network", "192.168.42.129"),
    ]


def test_what_several_programs_say_counts_once() -> None:
    assert len(parse_addresses(ROUTE + "24: wlan0    inet 192.168.86.37/24 scope global wlan0\n")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/system/bin/sh: ip: inaccessible or not found\n",
        "dhcp-wlan0 \n",
        "dhcp-wlan0 0.0.0.0\n",
        "1: lo    inet 127.0.0.1/8 scope host lo\n",
        "15: v4-rmnet_data0    inet 192.0.0.4/32 scope global v4-rmnet_data0\n",
        "192.168.1.0/24 dev wlan0 proto kernel scope link src 192.168.1.999\n",
        "wlan0: ip 0.0.0.0 mask 0.0.0.0 flags [broadcast multicast]\n",
    ],
)
def test_no_network(text: str) -> None:
    assert parse_addresses(text) == ()
