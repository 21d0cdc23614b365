//! Rows as a table, as JSON and as YAML.

use clap::ValueEnum;
use serde::Serialize;

use crate::escape::escape_unprintable;
use crate::exit::{Failure, Status};
use crate::output;

/// Output format of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For terminals.
    Table,
    /// Machine-readable.
    Json,
    /// The JSON document as YAML.
    Yaml,
}

/// Prints `rows` in the output format: as a table with these headings and `cells`, or serialized.
///
/// # Errors
/// Standard output fails.
pub fn print_rows<R: Serialize, const N: usize>(
    rows: &[R],
    format: Format,
    headings: [&str; N],
    cells: impl Fn(&R) -> [String; N],
) -> Result<Status, Failure> {
    output::print_document(&written(rows, format, headings, cells)?)?;
    Ok(Status::Done)
}

fn written<R: Serialize, const N: usize>(
    rows: &[R],
    format: Format,
    headings: [&str; N],
    cells: impl Fn(&R) -> [String; N],
) -> Result<String, Failure> {
    Ok(match format {
        Format::Table => {
            let escaped = |row: &R| cells(row).map(|cell| escape_unprintable(&cell).into_owned());
            table(headings, rows.iter().map(escaped).collect())
        }
        Format::Json => json(rows)?,
        Format::Yaml => serde_saphyr::to_string(&rows).map_err(Failure::internal)?,
    })
}

fn json<R: Serialize>(rows: &[R]) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(rows).map_err(Failure::internal)?;
    text.push('\n');
    Ok(text)
}

/// A table with these headings.
pub fn table<const N: usize>(headings: [&str; N], rows: Vec<[String; N]>) -> String {
    let wide = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(wide);
    let head = headings.map(str::to_owned);
    let mut text = String::new();
    for row in std::iter::once(&head).chain(&rows) {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// RFC 3339 in UTC; empty for zero.
pub fn moment(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(at) if ms > 0 => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![["1".to_owned(), "fleet".to_owned()], ["12".to_owned(), "a".to_owned()]];
        assert_eq!(table(["ID", "SCOPE"], rows), "ID  SCOPE\n1   fleet\n12  a\n");
    }

    #[test]
    fn control_characters_in_rows_are_escaped() {
        const REASON: &str = "a\u{1b}[2Jb\nc";
        let printed = |format| written(&[REASON], format, ["REASON"], |row| [(*row).to_owned()]).unwrap();
        assert_eq!(printed(Format::Table), "REASON\na\\u{1b}[2Jb\\u{a}c\n");
        for format in [Format::Json, Format::Yaml] {
            let text = printed(format);
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
    }

    #[test]
    fn times_are_printed_in_utc() {
        // 1,000,000,000 s after 1970.
        assert_eq!((moment(1_000_000_000_000).as_str(), moment(0).as_str()), ("2001-09-09 01:46:40", ""));
    }
}
