//! Columns of tables, and how wide each is.

use std::collections::BTreeSet;

use crate::sums::FleetSums;

/// What cells are made of, apart from their row.
pub(crate) struct Context<'a> {
    /// Milliseconds since 1970.
    pub(crate) now_ms: i64,
    pub(crate) sums: &'a FleetSums,
    /// Ids of clusters whose nodes are missing.
    pub(crate) without_nodes: &'a BTreeSet<String>,
    /// Rows of all clusters are shown.
    pub(crate) is_fleet: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A text, cut where it is wider than the column.
    Text(String),
    /// A bar and a percentage, from thousandths.
    Share(Option<i64>),
}

/// What rows are ordered by.
pub(crate) enum SortKey<R> {
    Name,
    Text(fn(&R) -> &str),
    Number(fn(&R, &Context<'_>) -> i64),
}

pub(crate) struct Column<R> {
    pub(crate) title: &'static str,
    /// Least width: every number fits.
    pub(crate) least: u16,
    pub(crate) most: u16,
    /// Columns with lower priorities are shown first.
    pub(crate) priority: u8,
    pub(crate) is_right: bool,
    /// Shown only among rows of all clusters.
    pub(crate) is_for_fleet: bool,
    pub(crate) key: SortKey<R>,
    /// The cell of a row in a column of this width.
    pub(crate) cell: fn(&R, &Context<'_>, usize) -> Cell,
}

impl<R> Column<R> {
    pub(crate) const fn text(
        title: &'static str,
        widths: (u16, u16),
        priority: u8,
        key: SortKey<R>,
        cell: fn(&R, &Context<'_>, usize) -> Cell,
    ) -> Self {
        let (least, most) = widths;
        Self { title, least, most, priority, is_right: false, is_for_fleet: false, key, cell }
    }

    pub(crate) const fn number(
        title: &'static str,
        width: u16,
        priority: u8,
        key: fn(&R, &Context<'_>) -> i64,
        cell: fn(&R, &Context<'_>, usize) -> Cell,
    ) -> Self {
        let key = SortKey::Number(key);
        Self { title, least: width, most: width, priority, is_right: true, is_for_fleet: false, key, cell }
    }

    /// A column of bars with percentages.
    pub(crate) const fn share(
        title: &'static str,
        priority: u8,
        key: fn(&R, &Context<'_>) -> i64,
        cell: fn(&R, &Context<'_>, usize) -> Cell,
    ) -> Self {
        let key = SortKey::Number(key);
        Self { title, least: 9, most: 9, priority, is_right: false, is_for_fleet: false, key, cell }
    }

    pub(crate) const fn for_fleet(mut self) -> Self {
        self.is_for_fleet = true;
        self
    }

    /// Whether rows are first ordered from the greatest to the least by it.
    pub(crate) fn is_descending_first(&self) -> bool {
        matches!(self.key, SortKey::Number(_))
    }
}

/// Index and width of each column that is shown.
pub(crate) type Layout = Vec<(usize, u16)>;

/// Columns with lower priorities are as wide as they can be before one of this priority or a higher one is shown.
const FIRST_EXTRA_PRIORITY: u8 = 12;

/// The columns that fit into `width` with a space before each, in their order. Those with lower priorities come first. What
/// is left of the width goes to columns that can be wider, from the left.
pub(crate) fn layout<R>(columns: &[Column<R>], is_fleet: bool, width: u16) -> Layout {
    let mut candidates: Vec<usize> =
        (0..columns.len()).filter(|index| is_fleet || !columns[*index].is_for_fleet).collect();
    candidates.sort_by_key(|index| columns[*index].priority);
    let extra = candidates.partition_point(|index| columns[*index].priority < FIRST_EXTRA_PRIORITY);
    let mut left = width;
    let mut shown: Layout = Vec::new();
    for group in [&candidates[..extra], &candidates[extra..]] {
        let is_complete = add_columns(columns, group, &mut shown, &mut left);
        shown.sort_unstable();
        for (index, width) in &mut shown {
            let more = columns[*index].most.saturating_sub(*width).min(left);
            *width += more;
            left -= more;
        }
        if !is_complete {
            break;
        }
    }
    shown
}

/// Adds columns at their least width while they fit; `false` if one does not.
fn add_columns<R>(columns: &[Column<R>], group: &[usize], shown: &mut Layout, left: &mut u16) -> bool {
    for index in group {
        let Some(rest) = left.checked_sub(columns[*index].least + 1) else { return false };
        *left = rest;
        shown.push((*index, columns[*index].least));
    }
    true
}
