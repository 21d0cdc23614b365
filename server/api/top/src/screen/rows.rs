//! Headings and the visible rows.

use super::canvas::Canvas;
use crate::column::{Cell, Context, Layout, layout};
use crate::format;
use crate::pane::Pane;
use crate::row::Row;
use crate::view::Cursor;

/// Where rows are drawn.
pub(super) struct Lines<'v> {
    pub(super) top: u16,
    pub(super) height: u16,
    pub(super) has_cursor: bool,
    pub(super) cursor: &'v Cursor,
}

/// Draws the headings and the rows of the screen, and reads no other rows.
pub(super) fn draw<R: Row>(pane: &Pane<R>, canvas: &mut Canvas<'_>, lines: &Lines<'_>, context: &Context<'_>) {
    // The first column is that of the cursor; each other one has a space before it.
    let layout = layout(pane.columns(), context.is_fleet, canvas.width());
    headings(pane, canvas, lines.top, &layout);
    for (line, y) in (0..lines.height).zip(lines.top + 1..) {
        let index = lines.cursor.offset + usize::from(line);
        let Some(entry) = pane.entry(index) else { break };
        let mut x = 0;
        for (column, width) in &layout {
            let column = &pane.columns()[*column];
            let cell = (column.cell)(&entry.row, context, (*width).into());
            draw_cell(canvas, (x + 1, y), *width, column.is_right, &cell);
            x += width + 1;
        }
        if entry.is_gone {
            canvas.text(0, y, "x");
        }
        if lines.has_cursor && index == lines.cursor.index {
            canvas.text(0, y, ">");
            canvas.reverse(y);
        }
    }
}

fn headings<R: Row>(pane: &Pane<R>, canvas: &mut Canvas<'_>, y: u16, layout: &Layout) {
    let mut x = 0;
    for (column, width) in layout {
        let column = &pane.columns()[*column];
        let title = aligned(column.title, (*width).into(), column.is_right);
        canvas.bold(x + 1, y, &title);
        x += width + 1;
    }
}

fn draw_cell(canvas: &mut Canvas<'_>, (x, y): (u16, u16), width: u16, is_right: bool, cell: &Cell) {
    match cell {
        Cell::Text(text) => canvas.text(x, y, &aligned(text, width.into(), is_right)),
        Cell::Share(None) => canvas.text(x, y, &aligned("no data", width.into(), false)),
        Cell::Share(Some(permille)) => {
            let bar = width.saturating_sub(5);
            canvas.bar(x, y, *permille, bar);
            canvas.text(x + bar, y, &format!("{:>5}", format::percent(Some(*permille))));
        }
    }
}

fn aligned(text: &str, width: usize, is_right: bool) -> String {
    let cut = format::cut(text, width);
    if is_right { format!("{cut:>width$}") } else { format!("{cut:<width$}") }
}
