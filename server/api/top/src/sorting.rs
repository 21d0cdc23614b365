//! The order of rows.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::column::{Column, Context, SortKey};
use crate::row::Row;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowOrder {
    /// Index of a column.
    pub(crate) column: usize,
    pub(crate) is_descending: bool,
}

/// The slots of `rows`, which are in the order of names, in the order of `column`. Rows with equal keys are in the order of
/// their names. Each row is read once.
pub(crate) fn sorted<'t, R: Row + 't>(
    rows: impl Iterator<Item = (u32, &'t R)>,
    column: &Column<R>,
    is_descending: bool,
    context: &Context<'_>,
) -> Vec<u32> {
    let ranked = match column.key {
        SortKey::Name => {
            let mut slots: Vec<u32> = rows.map(|(slot, _)| slot).collect();
            if is_descending {
                slots.reverse();
            }
            return slots;
        }
        SortKey::Number(key) => rows.map(|(slot, row)| (key(row, context), slot)).collect(),
        SortKey::Text(text) => text_ranks(rows.map(|(slot, row)| (text(row), slot))),
    };
    // The bitwise complement reverses an order and, other than a negation, has a value for each number.
    let ordered = |key: i64| if is_descending { !key } else { key };
    let places = ranked.into_iter().zip(0_u32..);
    let mut places: Vec<(i64, u32, u32)> = places.map(|((key, slot), rank)| (ordered(key), rank, slot)).collect();
    places.sort_unstable();
    places.into_iter().map(|(_, _, slot)| slot).collect()
}

/// The order of two rows that [`sorted`] makes.
pub(crate) fn compare<R: Row>(
    (a, b): (&R, &R),
    column: &Column<R>,
    is_descending: bool,
    context: &Context<'_>,
) -> Ordering {
    let by_key = match column.key {
        SortKey::Name => a.name().cmp(b.name()),
        SortKey::Number(key) => key(a, context).cmp(&key(b, context)),
        SortKey::Text(text) => text(a).cmp(text(b)),
    };
    let by_key = if is_descending { by_key.reverse() } else { by_key };
    by_key.then_with(|| a.name().cmp(b.name()))
}

/// The place of each text among the different texts: most columns have few, so that most texts are not compared.
fn text_ranks<'t>(texts: impl Iterator<Item = (&'t str, u32)>) -> Vec<(i64, u32)> {
    let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
    let mut different: Vec<&str> = Vec::new();
    let mut number_of = |text: &'t str| {
        *numbers.entry(text).or_insert_with(|| {
            different.push(text);
            different.len() - 1
        })
    };
    let numbered: Vec<(usize, u32)> = texts.map(|(text, slot)| (number_of(text), slot)).collect();
    let common = common_prefix(&different);
    let leading = different.iter().enumerate();
    let mut by_text: Vec<(u64, &str, usize)> =
        leading.map(|(number, text)| (leading_bytes(&text.as_bytes()[common..]), *text, number)).collect();
    by_text.sort_unstable();
    let mut ranks = vec![0_i64; different.len()];
    by_text.iter().zip(0_i64..).for_each(|((_, _, number), rank)| ranks[*number] = rank);
    numbered.into_iter().map(|(number, slot)| (ranks[number], slot)).collect()
}

/// Number of bytes that all texts begin with.
fn common_prefix(texts: &[&str]) -> usize {
    let Some((first, others)) = texts.split_first() else { return 0 };
    let same = |text: &&str| first.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    others.iter().map(same).min().unwrap_or(first.len())
}

/// The first eight bytes as a number: texts that differ in them are in the order of these numbers.
fn leading_bytes(text: &[u8]) -> u64 {
    (0..8).fold(0, |number, index| number << 8 | u64::from(text.get(index).copied().unwrap_or(0)))
}
