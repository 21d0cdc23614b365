//! Rows in memory, by name.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::filter::Filter;
use crate::row::Row;

/// A row, and what is kept about it.
#[derive(Debug)]
pub(crate) struct Entry<R> {
    pub(crate) row: R,
    /// Texts of the row in lower case.
    searched: Box<str>,
    pub(crate) is_match: bool,
    /// The row does not exist any more. It is kept while the order of the rows is.
    pub(crate) is_gone: bool,
    /// The last list that had it.
    list: u32,
}

/// Rows in slots, whose numbers are constant while the row exists.
#[derive(Debug)]
pub(crate) struct Table<R> {
    slots: Vec<Option<Entry<R>>>,
    free: Vec<u32>,
    by_name: BTreeMap<Box<str>, u32>,
    /// Slots of rows that are gone, and of rows that came or changed, since the last purge.
    gone: Vec<u32>,
    changed: Vec<u32>,
    filter: Filter<R>,
    list: u32,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_name: BTreeMap::new(),
            gone: Vec::new(),
            changed: Vec::new(),
            filter: Filter::default(),
            list: 0,
        }
    }
}

impl<R: Row> Table<R> {
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Entry<R>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(crate) fn slot_of(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&R> {
        self.get(self.slot_of(name)?).map(|entry| &entry.row)
    }

    /// Slots in the order of names; only those whose names begin with `prefix`.
    pub(crate) fn named<'t>(&'t self, prefix: &'t str) -> impl Iterator<Item = u32> + 't {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(prefix), Bound::Unbounded);
        self.by_name.range::<str, _>(from).take_while(move |(name, _)| name.starts_with(prefix)).map(|(_, slot)| *slot)
    }

    /// All rows that exist, in the order of their names.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &R> {
        self.by_name.values().filter_map(|slot| self.get(*slot)).map(|entry| &entry.row)
    }

    /// Adds or replaces a row, and returns the one that had its name.
    pub(crate) fn upsert(&mut self, row: R) -> Option<R> {
        let searched = row.searched_text().to_lowercase().into_boxed_str();
        let is_match = self.filter.matches(&row, &searched);
        let entry = Entry { row, searched, is_match, is_gone: false, list: self.list };
        if let Some(slot) = self.slot_of(entry.row.name()) {
            self.changed.push(slot);
            return self.slots[slot as usize].replace(entry).map(|entry| entry.row);
        }
        let name = entry.row.name().into();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.slots.push(Some(entry));
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.changed.push(slot);
        self.by_name.insert(name, slot);
        None
    }

    /// Marks a row as gone, and returns it.
    pub(crate) fn remove(&mut self, name: &str) -> Option<&R> {
        let slot = self.by_name.remove(name)?;
        self.gone.push(slot);
        let entry = self.slots.get_mut(slot as usize)?.as_mut()?;
        entry.is_gone = true;
        Some(&entry.row)
    }

    /// Number of changes of rows since the last purge.
    pub(crate) fn changes(&self) -> usize {
        self.changed.len() + self.gone.len()
    }

    /// Slots of the rows that came, changed or are gone since the last purge, each once, and for each slot whether it is
    /// among them.
    pub(crate) fn changed_slots(&self) -> (Vec<u32>, Vec<bool>) {
        let mut is_changed = vec![false; self.slots.len()];
        let slots = self.changed.iter().chain(&self.gone).copied();
        let first = slots.filter(|slot| !std::mem::replace(&mut is_changed[*slot as usize], true)).collect();
        (first, is_changed)
    }

    /// Frees the slots of rows that are gone. What changed before is not known any more.
    pub(crate) fn purge(&mut self) {
        self.changed.clear();
        for slot in self.gone.drain(..) {
            self.slots[slot as usize] = None;
            self.free.push(slot);
        }
    }

    pub(crate) fn begin_list(&mut self) {
        self.list += 1;
    }

    /// Names of the rows that were not added since the list began.
    pub(crate) fn unlisted(&self) -> Vec<String> {
        let is_unlisted = |slot: &u32| self.get(*slot).is_some_and(|entry| entry.list != self.list);
        self.by_name.iter().filter(|(_, slot)| is_unlisted(slot)).map(|(name, _)| name.to_string()).collect()
    }

    /// Names that begin with `prefix`.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        self.named(prefix).filter_map(|slot| self.get(slot)).map(|entry| entry.row.name().to_owned()).collect()
    }

    /// Evaluates another filter for all rows.
    pub(crate) fn set_filter(&mut self, filter: Filter<R>) {
        self.filter = filter;
        for entry in self.slots.iter_mut().flatten() {
            entry.is_match = self.filter.matches(&entry.row, &entry.searched);
        }
    }
}
