"""The real data sets: shapes, checksums and public homes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One real data set."""

    key: str  # short name, as in ``paper_splits(key)``
    title: str  # name in running text, before the word "data"
    stem: str  # name of the file without ``.csv`` or ``.csv.gz``
    columns: tuple[str, ...]  # the header, in file order
    target: str  # the column to predict
    rows: int  # number of data rows
    # Checksum of the numbers (rows × columns without `dropped`, little-endian float64), which does
    # not depend on how they are printed.
    values_sha256: str
    home: str  # the page the set is published on
    origin: str  # how the file is got from there
    licence: str  # terms of the data
    dropped: tuple[str, ...] = ()  # columns of the file that are neither features nor target
    # Zip file that the home offers for direct download, and the csv inside.
    archive_url: str | None = None
    archive_member: str | None = None
    # Column means weighted by ``1 + row/rows``; where given, a file whose means agree to
    # `FINGERPRINT_RTOL` is accepted although its checksum differs.
    fingerprint: tuple[float, ...] | None = None

    @property
    def archive(self) -> str | None:
        """File name of the zip archive, if the home offers one."""
        return None if self.archive_url is None else self.archive_url.rsplit("/", 1)[-1]

    @property
    def filenames(self) -> tuple[str, ...]:
        """Names under which the file is accepted, in order of preference."""
        names = (f"{self.stem}.csv.gz", f"{self.stem}.csv")
        return names if self.archive is None else (*names, self.archive)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns that are read: features and target, in file order."""
        return tuple(column for column in self.columns if column not in self.dropped)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features, in file order."""
        return tuple(column for column in self.value_columns if column != self.target)


# One changed entry moves a weighted mean by at least its own change / (2·rows), so at this
# tolerance any entry off by more than about 4e-4 column means is caught, as is another row order.
FINGERPRINT_RTOL = 1e-8

CPU = Source(
    key="cpu",
    title="CPU run time",
    stem="compactiv",
    columns=(*(str(number) for number in range(1, 22)), "y"),
    target="y",
    rows=8192,
    values_sha256="42bb17707d36bf87154dc5e35765b48bd9269fbe1f6c06b7a3efc33e78e11440",
    home="http://www.cs.toronto.edu/~delve/data/comp-activ/desc.html",
    origin=(
        "it is the 21-attribute version of the Delve set comp-activ, whose home offers no csv "
        "file: write its 21 attributes other than usr, sys, wio and idle as columns 1 to 21 and "
        "usr as y, rows in the source's order"
    ),
    licence="none stated",
)

POWER = Source(
    key="power",
    title="power consumption",
    stem="power",
    columns=(
        "DateTime",
        "Temperature",
        "Humidity",
        "Wind Speed",
        "general diffuse flows",
        "diffuse flows",
        "Zone 1 Power Consumption",
        "Zone 2  Power Consumption",
        "Zone 3  Power Consumption",
    ),
    target="Zone 3  Power Consumption",
    dropped=("DateTime",),
    rows=52416,
    values_sha256="de99471103b3084b19ea07d3eca4988770f9b819ced917b332d91452d16049c9",
    home="https://archive.ics.uci.edu/dataset/849/power+consumption+of+tetouan+city",
    origin="it is the csv file in the zip archive that UCI offers",
    licence="CC BY 4.0",
    archive_url=(
        "https://archive.ics.uci.edu/static/public/849/power+consumption+of+tetouan+city.zip"
    ),
    archive_member="Tetuan City power consumption.csv",
)

_ELEMENT_PROPERTIES = (
    *("atomic_mass", "fie", "atomic_radius", "Density", "ElectronAffinity"),
    *("FusionHeat", "ThermalConductivity", "Valence"),
)
_STATISTICS = ("mean", "gmean", "entropy", "range", "std")

# One weighted mean per column, in file order; see `Source.fingerprint`.
_SUPERCONDUCTORS_FINGERPRINT = """
    3.99075419 87.72603358 74.67499761 72.14773127 60.92156187 1.137229495 1.028523747
    111.2461436 34.52846648 43.13959705 40.01552217 769.933173 858.3436004 739.7044999
    823.9004568 1.268763485 0.9174467951 541.7049687 464.8648167 205.3016765 209.9614602
    157.2852828 136.5878369 144.7568896 124.0015303 1.238359931 1.095475474 131.9459966
    53.26720664 49.37192939 49.62812822 6267.803004 5513.824791 3797.620668 3497.146801
    1.05111784 0.8423068579 8507.388531 3016.885494 3390.109957 3252.243338 77.70410445
    91.42158339 55.86113118 71.93782678 1.045680514 0.7646267593 119.3346546 57.82713185
    48.43225125 43.73538964 15.05920023 14.90278838 10.88415074 11.17981013 1.062369853
    0.8821443639 21.8152311 8.889061186 8.681638792 8.019454813 86.63281804 78.76098565
    32.14407871 30.09056824 0.7368681012 0.5608069892 228.8376196 58.26213567 90.73455645
    87.26085249 3.308380179 3.292333673 3.158486393 3.1867105 1.260999079 1.021028559
    2.103876583 1.559816255 0.8659814302 0.7067372885 30.56664681
"""

SUPERCONDUCTORS = Source(
    key="superconductors",
    title="superconductor",
    stem="superconduct",
    columns=(
        "number_of_elements",
        *(
            f"{weight}{statistic}_{element_property}"
            for element_property in _ELEMENT_PROPERTIES
            for statistic in _STATISTICS
            for weight in ("", "wtd_")
        ),
        "critical_temp",
    ),
    target="critical_temp",
    rows=21263,
    # Of a table put together from published columns, printed with 15 digits; UCI's own train.csv
    # agrees with it to about 1e-10 and not to the last bit, hence the fingerprint.
    values_sha256="8b09d80d3a570b0561fffbad98ee3c61c8a300dfa58748c800923c9274b97d4e",
    home="https://archive.ics.uci.edu/dataset/464/superconductivty+data",
    origin="it is train.csv in the zip archive that UCI offers",
    licence="CC BY 4.0",
    archive_url="https://archive.ics.uci.edu/static/public/464/superconductivty+data.zip",
    archive_member="train.csv",
    fingerprint=tuple(map(float, _SUPERCONDUCTORS_FINGERPRINT.split())),
)

UK_TEMPERATURE = Source(
    key="uk_temperature",
    title="U.K. temperature",
    stem="uktemp",
    columns=("Tmean1", "yday", "x", "y", "h"),
    target="Tmean1",
    rows=45568,
    values_sha256="545d974dd743f9f301b3c97b51895dc505ee239cbb070e3eddf6af16fac60e1e",
    home="https://www.maths.ed.ac.uk/~swood34",
    origin=(
        "it is part of the U.K. black smoke data, published there as an R file only: write the "
        "rows of the year 2000, in file order, with write.csv(..., row.names = FALSE)"
    ),
    licence="OS Open Data and UK Met Office",
)

SOURCES = {source.key: source for source in (CPU, POWER, SUPERCONDUCTORS, UK_TEMPERATURE)}
