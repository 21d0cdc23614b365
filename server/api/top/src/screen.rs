//! The picture: header, rows, and what the keys do.

mod canvas;
mod header;
mod help;
mod rows;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::terminal::Frame;
use ratatui_core::text::Span;

use crate::change::Kind;
use crate::row::{Node, Pod};
use crate::state::{Mode, Top};
use canvas::Canvas;

/// Lines above the first row: the header, the line of the view, and the headings.
const HEADER_LINES: u16 = 8;

/// Lines below the last row: the selected row in full, and the keys.
const FOOTER_LINES: u16 = 2;

const KEYS: &str = "Enter open  Esc back  / filter  < > S order  1 2 3 view  p pause  ? help  q quit";

impl Top {
    /// Draws the picture at this time, in milliseconds since 1970.
    pub fn draw(&mut self, frame: &mut Frame<'_>, now_ms: i64) {
        let area = frame.area();
        self.draw_into(frame.buffer_mut(), area, FOOTER_LINES, now_ms);
    }

    /// The picture as lines of text, without the keys and without the cursor.
    pub fn plain_text(&mut self, width: u16, height: u16, now_ms: i64) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        self.draw_into(&mut buffer, area, 0, now_ms);
        let lines = text_of(&buffer);
        format!("{}\n", lines.trim_end())
    }

    fn draw_into(&mut self, buffer: &mut Buffer, area: Rect, footer_lines: u16, now_ms: i64) {
        let height = area.height.saturating_sub(HEADER_LINES + footer_lines);
        self.settle(height.into(), now_ms);
        let mut canvas = Canvas::new(buffer, area, self.is_coloured());
        header::draw(self, &mut canvas, now_ms);
        if self.mode() == Mode::Help {
            help::draw(&mut canvas, HEADER_LINES - 1);
        } else {
            self.draw_rows(&mut canvas, height, footer_lines > 0, now_ms);
        }
        if footer_lines > 0 && area.height > FOOTER_LINES {
            canvas.text(0, area.height - 2, &self.selected_text());
            canvas.text(0, area.height - 1, &self.keys_text());
        }
    }

    fn draw_rows(&self, canvas: &mut Canvas<'_>, height: u16, has_cursor: bool, now_ms: i64) {
        let context = self.context(now_ms);
        let lines = rows::Lines { top: HEADER_LINES - 1, height, has_cursor, cursor: &self.view().cursor };
        match self.view().kind {
            Kind::Clusters => rows::draw(&self.clusters, canvas, &lines, &context),
            Kind::Nodes => rows::draw(&self.nodes, canvas, &lines, &context),
            Kind::Pods => rows::draw(&self.pods, canvas, &lines, &context),
        }
        if self.shown_len() == 0 {
            canvas.text(1, HEADER_LINES, self.empty_text());
        }
    }

    /// Why there is no row: a list that is not complete and an empty one are not the same.
    fn empty_text(&self) -> &'static str {
        let view = self.view();
        let has_rows = match view.kind {
            Kind::Clusters => self.clusters.table().len() > 0,
            Kind::Nodes => self.nodes.table().len() > 0,
            Kind::Pods => self.pods.table().len() > 0,
        };
        match self.source(view.kind).feed {
            crate::change::Feed::Listing => "No rows yet: the list is not complete.",
            _ if has_rows && !view.filter.is_empty() => "No row matches the filter.",
            _ => "No rows: the list is complete and has none here.",
        }
    }

    /// The selected row in full, because columns cut names.
    fn selected_text(&self) -> String {
        let Some(name) = self.name_at(self.view().cursor.index) else { return String::new() };
        let why = match self.view().kind {
            Kind::Clusters => self.clusters.table().find(name).map(|cluster| cluster.blocked_reason.clone()),
            Kind::Nodes => self.nodes.table().find(name).map(leaving),
            Kind::Pods => self.pods.table().find(name).map(outlook),
        };
        [name.to_owned(), why.unwrap_or_default()].join("  ").trim_end().to_owned()
    }

    fn keys_text(&self) -> String {
        match (self.mode(), &self.view().filter_error) {
            (Mode::Filter, None) => format!("Filter: {}_  (Enter keeps it, Esc clears it)", self.view().filter),
            (Mode::Filter, Some(error)) => format!("Filter: {}_  {error}", self.view().filter),
            (Mode::Help, _) => "Any key closes the help, q quits".to_owned(),
            (Mode::Browse, _) => KEYS.to_owned(),
        }
    }
}

fn leaving(node: &Node) -> String {
    [&*node.removal_reason, &*node.drain_blocked_reason].join(" ").trim().to_owned()
}

fn outlook(pod: &Pod) -> String {
    if pod.planned_node.is_empty() { pod.reasons.clone() } else { format!("planned on {}", pod.planned_node) }
}

/// The symbols of a buffer, without spaces at the ends of lines.
fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width.max(1));
    let line = |cells: &[ratatui_core::buffer::Cell]| {
        let mut text = String::new();
        let mut index = 0;
        while let Some(cell) = cells.get(index) {
            text.push_str(cell.symbol());
            // The cells behind a wide symbol have no symbol of their own.
            index += Span::raw(cell.symbol()).width().max(1);
        }
        text.trim_end().to_owned()
    };
    buffer.content.chunks(width).map(line).collect::<Vec<_>>().join("\n")
}
