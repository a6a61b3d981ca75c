"""The digest of a set of samples as results have it: how many, and the sum of their numbers' hashes."""

FULL = 2**64


def finalise(number):
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) % FULL
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) % FULL
    return number ^ (number >> 31)


def mix(number):
    """SplitMix64's finaliser, three times."""
    for _ in range(3):
        number = finalise((number + 0x9E3779B97F4A7C15) % FULL)
    return number


def of(samples):
    samples = list(samples)
    return text(len(samples), sum(map(mix, samples)))


def add(*digests):
    """Of all samples of sets that have none in common."""
    parts = [digest.split("-") for digest in digests]
    return text(sum(int(count) for count, _ in parts), sum(int(total, 16) for _, total in parts))


def text(count, total):
    return f"{count}-{total % FULL:016x}"
