//! The rows of a kind, with their order: what a view of that kind shows.

use std::cmp::Ordering;

use listing::Schema;

use crate::column::{Column, Context};
use crate::filter::Filter;
use crate::row::Row;
use crate::sorting::{RowOrder, compare, sorted};
use crate::table::{Entry, Table};

/// Rows are moved one by one where fewer than one in this number changed.
const FEW_CHANGES: usize = 8;

pub(crate) struct Pane<R: 'static> {
    table: Table<R>,
    columns: &'static [Column<R>],
    schema: Schema<R>,
    row_order: RowOrder,
    /// Slots of the rows that are shown.
    shown: Vec<u32>,
    /// The rows changed since they were last arranged.
    is_outdated: bool,
}

impl<R: Row> Pane<R> {
    /// Rows are first ordered by the column with this index, from the greatest to the least.
    pub(crate) fn new(columns: &'static [Column<R>], column: usize, schema: Schema<R>) -> Self {
        let row_order = RowOrder { column, is_descending: true };
        Self { table: Table::default(), columns, schema, row_order, shown: Vec::new(), is_outdated: true }
    }

    pub(crate) fn table(&self) -> &Table<R> {
        &self.table
    }

    /// For a change of rows: they are arranged again before the next picture.
    pub(crate) fn table_mut(&mut self) -> &mut Table<R> {
        self.is_outdated = true;
        &mut self.table
    }

    pub(crate) fn columns(&self) -> &'static [Column<R>] {
        self.columns
    }

    pub(crate) fn row_order(&self) -> RowOrder {
        self.row_order
    }

    pub(crate) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Number of rows that are shown.
    pub(crate) fn len(&self) -> usize {
        self.shown.len()
    }

    pub(crate) fn entry(&self, index: usize) -> Option<&Entry<R>> {
        self.table.get(*self.shown.get(index)?)
    }

    pub(crate) fn name_at(&self, index: usize) -> Option<&str> {
        self.entry(index).map(|entry| entry.row.name())
    }

    /// Where a row is among those that are shown.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let slot = self.table.slot_of(name)?;
        self.shown.iter().position(|shown| *shown == slot)
    }

    /// Orders by the next column, or by the one before.
    pub(crate) fn order_by_neighbour(&mut self, is_next: bool) {
        let columns = self.columns.len();
        let step = if is_next { 1 } else { columns - 1 };
        let column = (self.row_order.column + step) % columns;
        self.row_order = RowOrder { column, is_descending: self.columns[column].is_descending_first() };
    }

    pub(crate) fn reverse(&mut self) {
        self.row_order.is_descending = !self.row_order.is_descending;
    }

    /// Reads another filter.
    ///
    /// # Errors
    /// Why the text is no filter; the filter before remains.
    pub(crate) fn set_filter(&mut self, text: &str) -> Result<(), String> {
        let filter = Filter::parse(text, &self.schema)?;
        self.table_mut().set_filter(filter);
        Ok(())
    }

    /// Frees what a view that is not shown does not need.
    pub(crate) fn forget_order(&mut self) {
        self.shown.clear();
        self.table.purge();
        self.is_outdated = true;
    }

    /// Selects and orders the rows again: those whose names begin with `prefix`, that the filter accepts, and that are
    /// `in_scope`. Rows that are gone disappear.
    pub(crate) fn arrange(&mut self, prefix: &str, in_scope: impl Fn(&R) -> bool, context: &Context<'_>) {
        self.table.purge();
        let table = &self.table;
        let rows = table.named(prefix).filter_map(|slot| Some((slot, table.get(slot)?)));
        let rows =
            rows.filter(|(_, entry)| entry.is_match && in_scope(&entry.row)).map(|(slot, entry)| (slot, &entry.row));
        let RowOrder { column, is_descending } = self.row_order;
        self.shown = sorted(rows, &self.columns[column], is_descending, context);
        self.is_outdated = false;
    }

    /// As [`Pane::arrange`], where nothing but rows changed since then and the keys of the other rows are the same: moves
    /// the rows that changed to their places, and reads few others.
    pub(crate) fn arrange_changed(&mut self, prefix: &str, in_scope: impl Fn(&R) -> bool, context: &Context<'_>) {
        if self.table.changes() * FEW_CHANGES > self.shown.len() {
            return self.arrange(prefix, in_scope, context);
        }
        let (changed, is_changed) = self.table.changed_slots();
        let is_shown = |entry: &Entry<R>| {
            let row = &entry.row;
            !entry.is_gone && entry.is_match && row.name().starts_with(prefix) && in_scope(row)
        };
        let (table, column) = (&self.table, &self.columns[self.row_order.column]);
        let compare_slots = |a: u32, b: u32| match (table.get(a), table.get(b)) {
            (Some(a), Some(b)) => compare((&a.row, &b.row), column, self.row_order.is_descending, context),
            _ => Ordering::Equal,
        };
        let mut placed: Vec<u32> = changed.into_iter().filter(|slot| table.get(*slot).is_some_and(is_shown)).collect();
        placed.sort_unstable_by(|a, b| compare_slots(*a, *b));
        let kept: Vec<u32> = self.shown.iter().copied().filter(|slot| !is_changed[*slot as usize]).collect();
        self.shown = merged(&kept, &placed, |kept, placed| compare_slots(kept, placed).is_lt());
        self.table.purge();
        self.is_outdated = false;
    }
}

/// Both in one order. `is_before` is asked for few elements of `kept`: those in steps that double from where the last one was
/// placed, and then by bisection.
fn merged(kept: &[u32], placed: &[u32], is_before: impl Fn(u32, u32) -> bool) -> Vec<u32> {
    let mut merged = Vec::with_capacity(kept.len() + placed.len());
    let mut rest = kept;
    for slot in placed {
        let is_before = |kept: &u32| is_before(*kept, *slot);
        let (mut from, mut to) = (0, 1);
        while rest.get(to - 1).is_some_and(is_before) {
            (from, to) = (to, to * 2);
        }
        let to = to.min(rest.len());
        let (before, after) = rest.split_at(from + rest[from..to].partition_point(is_before));
        merged.extend_from_slice(before);
        merged.push(*slot);
        rest = after;
    }
    merged.extend_from_slice(rest);
    merged
}
