"""Orders: a sort key for the requests of a backlog. Every order is a permutation, ties by input."""

from sortedf.orders.keys import ORDERS, Order
from sortedf.orders.one_bit import Proxies, burst_proxies, geometric_proxies, one_bit_volume

__all__ = ["ORDERS", "Order", "Proxies", "burst_proxies", "geometric_proxies", "one_bit_volume"]
