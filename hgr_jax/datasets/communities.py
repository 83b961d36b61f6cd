"""Communities: violent crime in communities of the United States, from 1990 to 1995."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hgr_jax.datasets.dataset import Dataset, encoded, from_columns
from hgr_jax.datasets.download import fetch
from hgr_jax.tables.files import read_publication
from hgr_jax.tables.texts import MISSING

PUBLISHED_COLUMNS = 147

# fmt: off
USED_COLUMNS = (
    (5, "pop"), (6, "perHoush"), (7, "pctBlack"), (8, "pctWhite"), (9, "pctAsian"), (10, "pctHisp"),
    (11, "pct12-21"), (12, "pct12-29"), (13, "pct16-24"), (14, "pct65up"), (15, "persUrban"),
    (16, "pctUrban"), (17, "medIncome"), (18, "pctWwage"), (19, "pctWfarm"), (20, "pctWdiv"),
    (21, "pctWsocsec"), (22, "pctPubAsst"), (23, "pctRetire"), (24, "medFamIncome"),
    (25, "perCapInc"), (26, "whitePerCap"), (27, "blackPerCap"), (28, "NAperCap"),
    (29, "asianPerCap"), (30, "otherPerCap"), (31, "hispPerCap"), (32, "persPoverty"),
    (33, "pctPoverty"), (34, "pctLowEdu"), (35, "pctNotHSgrad"), (36, "pctCollGrad"),
    (37, "pctUnemploy"), (38, "pctEmploy"), (39, "pctEmployMfg"), (40, "pctEmployProfServ"),
    (41, "pctOccupManu"), (42, "pctOccupMgmt"), (43, "pctMaleDivorc"), (44, "pctMaleNevMar"),
    (45, "pctFemDivorc"), (46, "pctAllDivorc"), (47, "persPerFam"), (48, "pct2Par"),
    (49, "pctKids2Par"), (50, "pctKids-4w2Par"), (51, "pct12-17w2Par"), (52, "pctWorkMom-6"),
    (53, "pctWorkMom-18"), (54, "kidsBornNevrMarr"), (55, "pctKidsBornNevrMarr"),
    (56, "numForeignBorn"), (57, "pctFgnImmig-3"), (58, "pctFgnImmig-5"), (59, "pctFgnImmig-8"),
    (60, "pctFgnImmig-10"), (61, "pctImmig-3"), (62, "pctImmig-5"), (63, "pctImmig-8"),
    (64, "pctImmig-10"), (65, "pctSpeakOnlyEng"), (66, "pctNotSpeakEng"), (67, "pctLargHousFam"),
    (68, "pctLargHous"), (69, "persPerOccupHous"), (70, "persPerOwnOccup"),
    (71, "persPerRenterOccup"), (72, "pctPersOwnOccup"), (73, "pctPopDenseHous"),
    (74, "pctSmallHousUnits"), (75, "medNumBedrm"), (76, "houseVacant"), (77, "pctHousOccup"),
    (78, "pctHousOwnerOccup"), (79, "pctVacantBoarded"), (80, "pctVacant6up"),
    (81, "medYrHousBuilt"), (82, "pctHousWOphone"), (83, "pctHousWOplumb"), (84, "ownHousLowQ"),
    (85, "ownHousMed"), (86, "ownHousUperQ"), (87, "ownHousQrange"), (88, "rentLowQ"),
    (89, "rentMed"), (90, "rentUpperQ"), (91, "rentQrange"), (92, "medGrossRent"),
    (93, "medRentpctHousInc"), (94, "medOwnCostpct"), (95, "medOwnCostPctWO"),
    (96, "persEmergShelt"), (97, "persHomeless"), (98, "pctForeignBorn"), (99, "pctBornStateResid"),
    (100, "pctSameHouse-5"), (101, "pctSameCounty-5"), (102, "pctSameState-5"), (120, "landArea"),
    (121, "popDensity"), (122, "pctUsePubTrans"), (127, "pctOfficDrugUnit"), (145, "violentPerPop"),
)
# fmt: on
"""Positions in the publisher's file, which has no header, and the names that the paper uses."""


def load_communities(
    *,
    folder: str | Path | None = None,
    cache: str | Path | None = None,
    address: str | None = None,
    progress: bool = False,
) -> Dataset:
    """Load Communities: violent crimes per 100,000 people, protected share of whites.

    The publisher's file has 2,215 rows and 147 columns.  The paper keeps the 1,994 rows that have
    the target ``violentPerPop``, except one that lacks ``otherPerCap``, and the inputs without a
    missing value in these rows.  Names, codes and other crimes are left out.  The input ``race``
    is derived: 1 where ``pctBlack`` is above ``pctWhite``, else 0.  All inputs are numbers in
    their units.

    Args:
      folder: a folder with ``CommViolPredUnnormalizedData.txt``; default as in `load_adult`.
      cache, address, progress: as in `load_adult`.

    Returns:
      A `Dataset` with ``x`` of shape ``(1993, 103)``, a regression.

    Raises:
      DatasetError: if the file cannot be downloaded, or has other contents than the publisher's.
      ImportError: without pyarrow; without pooch, where the folder does not hold the file.
      TypeError, ValueError: for another ``progress`` or ``address``.

    Licence: CC BY 4.0.

    Source: Redmond, "Communities and Crime Unnormalized", UCI Machine Learning Repository;
    Redmond & Baveja (2002), "A data-driven software tool for enabling cooperative information
    sharing among police departments", European Journal of Operational Research 141, 660-678.

    Example:
      >>> from hgr_jax.datasets import load_communities
      >>> data = load_communities()  # doctest: +SKIP
      >>> data["pctWhite"].max()  # doctest: +SKIP
      99.63
    """
    path = fetch(
        "CommViolPredUnnormalizedData.txt",
        folder=folder,
        cache=cache,
        address=address,
        progress=progress,
    )
    cells = read_publication(path, [str(i) for i in range(PUBLISHED_COLUMNS)], encoding="latin-1")
    used = {name: cells[str(position)] for position, name in USED_COLUMNS}
    complete = ~np.any([np.isin(texts, list(MISSING)) for texts in used.values()], axis=0)
    numbers = encoded({name: texts[complete] for name, texts in used.items()}, ())
    race = (numbers["pctBlack"] > numbers["pctWhite"]).astype(np.float64)
    columns = {"pop": numbers.pop("pop"), "race": race} | numbers
    return from_columns(
        "communities", columns, target="violentPerPop", protected="pctWhite", task="regression"
    )
