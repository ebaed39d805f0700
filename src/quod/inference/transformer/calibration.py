"""The calibration texts that come with Quod: short passages of several kinds."""

from __future__ import annotations

_PROSE = """\
The harbour was quiet when the ferry left. Two gulls followed it past the lighthouse, then turned
back to the town, where the market had just opened. "You are early," said the woman who sold pears,
and counted the change twice. By noon the fog had gone, and one could see the islands: three low
hills, a white church, and the road that led from one to the other. He had written to his sister
that he would stay for a week. He stayed for nineteen years.
"""

_FACTS = """\
Water boils at 100 degrees Celsius at sea level, and at about 71 degrees on the top of Mount
Everest, where the pressure is a third of that below. In 1905 Albert Einstein published four papers
on light, atoms, motion and energy. The Nile is 6,650 km long. A prime number has exactly two
divisors; 2, 3, 5, 7, 11 and 13 are prime, 1 is not. The capital of France is Paris, that of Japan
is Tokyo, and that of Australia is Canberra, not Sydney.
"""

_CODE = """\
def mean(values: list[float]) -> float:
    \"\"\"Return the mean of values.\"\"\"
    if not values:
        raise ValueError("no values")
    return sum(values) / len(values)


for (int i = 0; i < n; i++) {
    total += a[i] * b[i];   // dot product
}

SELECT name, COUNT(*) FROM orders WHERE year >= 2020 GROUP BY name ORDER BY 2 DESC;
{"id": 17, "tags": ["new", "red"], "price": 4.99, "stock": null}
"""

_DIALOGUE = """\
<|im_start|>system
You are a helpful assistant.<|im_end|>
<|im_start|>user
How do I cook rice?<|im_end|>
<|im_start|>assistant
1. Rinse one cup of rice until the water is clear.
2. Add two cups of water and a pinch of salt.
3. Bring it to a boil, cover it, and simmer for 15 minutes.
4. Let it rest for five minutes.<|im_end|>
<|im_start|>user
And if I have no lid?<|im_end|>
"""

_LANGUAGES = """\
Der Zug nach Köln fährt um acht Uhr ab. La bibliothèque ferme à six heures. El perro duerme debajo
de la mesa. Il treno è in ritardo di dieci minuti. 今日は天気がいいですね。 Москва — столица России.
# Heading

* first point, *emphasised*
* second point: https://example.org/path?x=1&y=2

| name | value |
|---|---|
| alpha | 0.25 |
| beta | -3e-7 |
"""


def calibration_texts() -> tuple[str, ...]:
    """Return the texts."""
    return _PROSE, _FACTS, _CODE, _DIALOGUE, _LANGUAGES
