//! Labels of all types in columns: each value is stored once, with its requirement.

use std::collections::BTreeMap;

use model::{Operator, Requirement, Text};

/// The labels of all types of a snapshot, by key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Columns(Vec<Column>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    key: Text,
    /// Requirement for types without the label.
    absent: Requirement,
    values: Vec<(Text, Requirement)>,
    ids: BTreeMap<Text, usize>,
}

/// Labels of one type: per column the value's number from 1, or 0 for none. Missing columns are 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Row(Vec<usize>);

impl Columns {
    /// Sets the label `key` of `row`; `false` when it was set already.
    pub(super) fn set(&mut self, row: &mut Row, key: &str, value: &str) -> bool {
        let at = self.position(key).unwrap_or_else(|| self.add(key));
        if row.0.len() <= at {
            row.0.resize(at + 1, 0);
        }
        let fresh = row.0[at] == 0;
        row.0[at] = self.0[at].id(value);
        fresh
    }

    /// Makes `key` known: types without it are known to lack it, even where no type has it.
    pub(super) fn declare(&mut self, key: &str) {
        if !self.contains(key) {
            self.add(key);
        }
    }

    fn add(&mut self, key: &str) -> usize {
        let absent = Requirement::new(key, Operator::DoesNotExist, []);
        self.0.push(Column { key: key.into(), absent, values: Vec::new(), ids: BTreeMap::new() });
        self.0.len() - 1
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|column| column.key.as_ref() == key)
    }

    /// Whether some type has the label.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// The value that `row` has for `key`.
    pub(super) fn value(&self, row: &Row, key: &str) -> Option<&Text> {
        let at = self.position(key)?;
        self.0[at].value(row.number(at)).map(|(value, _)| value)
    }

    /// The labels of `row`, in no particular order.
    pub(super) fn labels(&self, row: &Row) -> impl Iterator<Item = (&Text, &Text)> {
        self.0
            .iter()
            .enumerate()
            .filter_map(|(at, column)| column.value(row.number(at)).map(|(value, _)| (&column.key, value)))
    }

    /// Requirements of `row`: its labels, and the known absence of labels that other types have.
    pub(super) fn requirements(&self, row: &Row) -> impl Iterator<Item = &Requirement> {
        self.0
            .iter()
            .enumerate()
            .map(|(at, column)| column.value(row.number(at)).map_or(&column.absent, |(_, requirement)| requirement))
    }
}

impl Column {
    fn id(&mut self, value: &str) -> usize {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let value = Text::from(value);
        self.values.push((value.clone(), Requirement::equals(&self.key, value.clone())));
        self.ids.insert(value, self.values.len());
        self.values.len()
    }

    fn value(&self, number: usize) -> Option<&(Text, Requirement)> {
        number.checked_sub(1).and_then(|index| self.values.get(index))
    }
}

impl Row {
    fn number(&self, column: usize) -> usize {
        self.0.get(column).copied().unwrap_or(0)
    }
}
