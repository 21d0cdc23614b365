//! Texts on a buffer.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use crate::format;

/// Above this share, in thousandths, a bar is green.
const GREEN_ABOVE: i64 = 900;

/// Above this share, in thousandths, a bar is yellow.
const YELLOW_ABOVE: i64 = 600;

/// A buffer, and whether it may have colours.
pub(super) struct Canvas<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    is_coloured: bool,
}

impl<'b> Canvas<'b> {
    pub(super) fn new(buffer: &'b mut Buffer, area: Rect, is_coloured: bool) -> Self {
        Self { buffer, area, is_coloured }
    }

    pub(super) fn width(&self) -> u16 {
        self.area.width
    }

    /// A text, cut at the right edge.
    pub(super) fn text(&mut self, x: u16, y: u16, text: &str) {
        self.styled(x, y, text, Style::new());
    }

    pub(super) fn bold(&mut self, x: u16, y: u16, text: &str) {
        self.styled(x, y, text, Style::new().add_modifier(Modifier::BOLD));
    }

    /// A text that ends at the right edge; `left` is where another text of the line ends.
    pub(super) fn right(&mut self, y: u16, left: u16, text: &str) {
        let room = usize::from(self.area.width.saturating_sub(left + 2));
        let cut = format::cut(text, room);
        let length = u16::try_from(cut.chars().count()).unwrap_or(u16::MAX);
        self.text(self.area.width.saturating_sub(length), y, &cut);
    }

    /// A bar of this width, of the colour of its share.
    pub(super) fn bar(&mut self, x: u16, y: u16, permille: i64, width: u16) {
        let bar = format::bar(permille, width.into());
        self.styled(x, y, &bar, self.style_of(permille));
    }

    /// Reverses a line, as that of the cursor.
    pub(super) fn reverse(&mut self, y: u16) {
        if y < self.area.height {
            let line = Rect::new(self.area.x, self.area.y + y, self.area.width, 1);
            self.buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    fn style_of(&self, permille: i64) -> Style {
        if !self.is_coloured {
            return Style::new();
        }
        Style::new().fg(match permille {
            share if share > GREEN_ABOVE => Color::Green,
            share if share > YELLOW_ABOVE => Color::Yellow,
            _ => Color::Red,
        })
    }

    fn styled(&mut self, x: u16, y: u16, text: &str, style: Style) {
        if x >= self.area.width || y >= self.area.height {
            return;
        }
        let room = usize::from(self.area.width - x);
        self.buffer.set_stringn(self.area.x + x, self.area.y + y, format::cut(text, room), room, style);
    }
}
