# SPDX-License-Identifier: MIT OR Apache-2.0
from linnet.studies.sensitivity import figure, markdown, sweep


def test_a_sweep_repeats_and_realises_the_share() -> None:
    swept, shares = (("sata", "az-c", 8.0),), (0.0, 1.0)
    rows = sweep(swept, shares, (1, 2))
    assert rows[1:] == sweep(swept, (1.0,), (1, 2))
    assert rows[0]["realised_share"][0] < 0.1
    assert rows[1]["realised_share"][0] > 0.9
    assert all(0 <= row["recall"][1] <= row["recall"][0] <= row["recall"][2] <= 1 for row in rows)
    assert markdown(rows).count("\n") == 4
    assert figure(rows) == figure(rows)
