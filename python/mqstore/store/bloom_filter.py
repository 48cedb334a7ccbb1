"""The bits by which a queue's extension says that a message passes a group's filter.

Source: ``BloomFilter``, with the sizes that ``BrokerConfig`` has by default: 20 % of errors at 32 groups.
"""

__all__ = ["BIT_NUM", "HASH_COUNT", "bit_positions"]

BIT_NUM = 112
"""Bits of a map."""
HASH_COUNT = 3
"""Bits of a group."""
_LONG_MASK = (1 << 64) - 1
_INT_MASK = (1 << 32) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_BLOCK_SIZE = 16


def bit_positions(group: str, topic: str) -> tuple[int, ...]:
    """The bits of a group in a topic. Source: ``calcBitPositions``."""
    hash64 = _murmur3_128_low(f"{group}#{topic}".encode(errors="replace"))
    hash1, hash2 = hash64 & _INT_MASK, hash64 >> 32
    positions = []
    for number in range(1, HASH_COUNT + 1):
        combined = (hash1 + number * hash2) & _INT_MASK
        positions.append((combined ^ _INT_MASK if combined >> 31 else combined) % BIT_NUM)
    return tuple(positions)


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _LONG_MASK


def _mixed(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _LONG_MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _LONG_MASK
    return value ^ value >> 33


def _murmur3_128_low(data: bytes) -> int:
    """The first half of MurmurHash3's 128 bits, x64 variant, seed 0."""
    h1 = h2 = 0
    whole = len(data) - len(data) % _BLOCK_SIZE
    for at in range(0, whole, _BLOCK_SIZE):
        k1, k2 = (int.from_bytes(data[at + half : at + half + 8], "little") for half in (0, 8))
        h1 ^= _rotate(k1 * _C1 & _LONG_MASK, 31) * _C2 & _LONG_MASK
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DCE729) & _LONG_MASK
        h2 ^= _rotate(k2 * _C2 & _LONG_MASK, 33) * _C1 & _LONG_MASK
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x38495AB5) & _LONG_MASK
    k1, k2 = (int.from_bytes(data[whole + half : min(len(data), whole + half + 8)], "little") for half in (0, 8))
    h2 ^= _rotate(k2 * _C2 & _LONG_MASK, 33) * _C1 & _LONG_MASK
    h1 ^= _rotate(k1 * _C1 & _LONG_MASK, 31) * _C2 & _LONG_MASK
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & _LONG_MASK
    h2 = (h2 + h1) & _LONG_MASK
    return (_mixed(h1) + _mixed(h2)) & _LONG_MASK
