//! Aligns the columns of a table for terminals.

use std::io::{self, Write};

/// Aligns columns; the last column has no width limit.
pub(super) fn write_columns<const N: usize>(rows: Vec<[String; N]>, out: &mut dyn Write) -> io::Result<()> {
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(widths) {
            line.push(' ');
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 1 - cell.chars().count()));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_do_not_trail() {
        let mut out = Vec::new();
        let rows = vec![["NODE", "PODS"], ["a", "10"], ["longer", "2"]];
        write_columns(rows.into_iter().map(|row| row.map(str::to_owned)).collect(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  NODE    PODS\n  a       10\n  longer  2\n");
    }
}
