// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of the canonical form's columns: how they are widened, and the records that they make.

use linnet_types::{IoRecord, Nanos, Op};
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::ColumnReader;
use parquet::schema::types::ColumnDescriptor;

use super::canonical::COLUMNS;
use crate::error::Bad;
use crate::text::check_latency;

/// Above every double that is taken: 2^63.
const WHOLE_MAX: f64 = (1u64 << 63) as f64;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unsigned,
    /// Also where the file does not say otherwise.
    Signed,
    /// Whole numbers as doubles, which tools without integers that may be absent write; NaN is null.
    Double,
}

/// Says what the values of a column are. Refuses one that is nested, or whose values are no plain integers, and says what
/// it is; `may_be_double` allows doubles. Dates, times and decimal numbers are stored as integers, but their units are not
/// ours.
pub(super) fn kind(column: &ColumnDescriptor, may_be_double: bool) -> Result<Kind, String> {
    use ConvertedType::{INT_8, INT_16, INT_32, INT_64, NONE, UINT_8, UINT_16, UINT_32, UINT_64};
    let physical = column.physical_type();
    if column.path().parts().len() > 1 || column.max_rep_level() > 0 {
        return Err("a nested column".into());
    }
    if physical == Type::DOUBLE && may_be_double {
        return Ok(Kind::Double);
    }
    if !matches!(physical, Type::INT32 | Type::INT64 | Type::BOOLEAN) {
        return Err(physical.to_string());
    }
    match (column.logical_type_ref(), column.converted_type()) {
        // A column of nulls alone has the logical type Unknown.
        (Some(LogicalType::Integer(integer)), _) if !integer.is_signed => Ok(Kind::Unsigned),
        (Some(LogicalType::Integer(_) | LogicalType::Unknown), _) => Ok(Kind::Signed),
        (None, UINT_8 | UINT_16 | UINT_32 | UINT_64) => Ok(Kind::Unsigned),
        (None, NONE | INT_8 | INT_16 | INT_32 | INT_64) => Ok(Kind::Signed),
        (Some(logical), _) => Err(format!("{physical} of {logical:?}")),
        (None, converted) => Err(format!("{physical} of {converted}")),
    }
}

/// Reads `rows` values of a column as 64-bit integers; `None` for null. Negative ones are in two's complement, and doubles
/// their own bits.
pub(super) fn values(reader: &mut ColumnReader, rows: usize, kind: Kind) -> Result<Vec<Option<u64>>, String> {
    fn spread<T: Copy>(values: &[T], levels: &[i16], rows: usize, widen: impl Fn(T) -> u64) -> Vec<Option<u64>> {
        if levels.is_empty() {
            return values.iter().map(|&v| Some(widen(v))).collect();
        }
        let mut given = values.iter();
        levels.iter().take(rows).map(|&l| if l > 0 { given.next().map(|&v| widen(v)) } else { None }).collect()
    }
    let mut levels: Vec<i16> = Vec::new();
    macro_rules! read {
        ($reader:expr, $widen:expr) => {{
            let mut found = Vec::new();
            let mut got = 0;
            while got < rows {
                let (n, _, _) =
                    $reader.read_records(rows - got, Some(&mut levels), None, &mut found).map_err(|e| e.to_string())?;
                if n == 0 {
                    return Err(format!("ends after {got} of {rows} rows"));
                }
                got += n;
            }
            spread(&found, &levels, rows, $widen)
        }};
    }
    let spread = match reader {
        ColumnReader::Int32ColumnReader(r) if kind == Kind::Signed => read!(r, |v: i32| i64::from(v) as u64),
        ColumnReader::Int32ColumnReader(r) => read!(r, |v: i32| u64::from(v as u32)),
        ColumnReader::Int64ColumnReader(r) => read!(r, |v: i64| v as u64),
        ColumnReader::BoolColumnReader(r) => read!(r, u64::from),
        ColumnReader::DoubleColumnReader(r) if kind == Kind::Double => read!(r, f64::to_bits),
        _ => return Err("is not an integer column".into()),
    };
    if spread.len() == rows { Ok(spread) } else { Err(format!("has {} values for {rows} rows", spread.len())) }
}

/// The values of a batch, by column.
pub(super) struct Batch<'a> {
    pub tables: [Option<Vec<Option<u64>>>; COLUMNS.len()],
    pub kinds: &'a [Kind; COLUMNS.len()],
    /// Added to every time.
    pub origin_ns: Nanos,
}

impl Batch<'_> {
    fn cell(&self, column: usize, row: usize) -> Result<Option<u64>, Bad> {
        let Some(value) = self.tables[column].as_ref().and_then(|table| table[row]) else { return Ok(None) };
        match self.kinds[column] {
            Kind::Signed if (value as i64) < 0 => Err(Bad::of(COLUMNS[column], value as i64, "is negative")),
            Kind::Signed | Kind::Unsigned => Ok(Some(value)),
            Kind::Double => match f64::from_bits(value) {
                value if value.is_nan() => Ok(None),
                value if (0.0..WHOLE_MAX).contains(&value) && value.fract() == 0.0 => Ok(Some(value as u64)),
                value => Err(Bad::of(COLUMNS[column], value, "is no whole number from 0 to 2^63 - 1")),
            },
        }
    }

    fn must(&self, column: usize, row: usize) -> Result<u64, Bad> {
        self.cell(column, row)?.ok_or_else(|| Bad::new(COLUMNS[column], b"null", "where a value is needed"))
    }

    /// A number of 32 bits, 0 where there is no such column. A column that is there must be complete.
    fn number(&self, column: usize, row: usize) -> Result<u32, Bad> {
        let value = if self.tables[column].is_some() { self.must(column, row)? } else { 0 };
        u32::try_from(value).map_err(|_| Bad::of(COLUMNS[column], value, "does not fit 32 bits"))
    }

    /// The record of a row; `None` if its size is 0.
    pub fn record(&self, row: usize) -> Result<Option<IoRecord>, Bad> {
        let op = match self.must(1, row)? {
            0 => Op::Read,
            1 => Op::Write,
            other => return Err(Bad::of("op", other, "is neither 0 (read) nor 1 (write)")),
        };
        let size = self.must(3, row)?;
        let size_bytes = u32::try_from(size).map_err(|_| Bad::of("size_bytes", size, "is not below 2^32"))?;
        let (device, tenant) = (self.number(4, row)?, self.number(6, row)?);
        let offset_bytes = self.must(2, row)?;
        let since = self.must(0, row)?;
        let arrive_ns = since.checked_add(self.origin_ns);
        let arrive_ns =
            arrive_ns.ok_or_else(|| Bad::of("arrive_ns", since, "after the origin does not fit 64 bits"))?;
        let latency_ns = self.cell(5, row)?;
        // As in the formats of text, a record without bytes is left out before its ranges are checked.
        if size == 0 {
            return Ok(None);
        }
        if offset_bytes > i64::MAX as u64 - size {
            return Err(Bad::of("offset_bytes", offset_bytes, "lies beyond 8 EiB"));
        }
        check_latency(latency_ns)?;
        Ok(Some(IoRecord { arrive_ns, latency_ns, offset_bytes, size_bytes, device, tenant, op }))
    }
}
