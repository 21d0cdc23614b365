//! A page from the parts that replicas selected.

use std::cmp::Ordering;

use crate::Query;
use crate::page_token::OwnedKey;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<R> {
    /// In the order of the list. May have fewer rows than were asked for, also where more follow.
    pub rows: Vec<R>,
    /// Of the page after this one; empty when there is none.
    pub next_page_token: String,
}

impl<R> Query<R> {
    /// The page of which each of `parts` is what one replica selected ([`Query::select`]).
    ///
    /// A part with more rows than the page has may have still more after them, and any other part is complete. The schemas of
    /// all replicas must therefore have the same [`PageSizes`](crate::PageSizes): a part that is short because its replica
    /// has a lower maximum would seem complete.
    ///
    /// Two replicas can have a row of the same name, when its owner changes. The page has the one that `preference` orders
    /// last, and of equal ones that of the first part. When the two have different sort keys, they can still be on two
    /// pages: no page knows the rows of another.
    #[must_use]
    pub fn merge(&self, parts: Vec<Vec<R>>, preference: impl Fn(&R, &R) -> Ordering) -> Page<R> {
        let horizon = self.horizon(&parts);
        let mut rows = self.without_duplicates(parts, preference);
        rows.sort_unstable_by(|left, right| self.order().compare(left, right));
        if let Some(horizon) = &horizon {
            let horizon = horizon.as_key();
            rows.truncate(rows.partition_point(|row| self.order().compare_with_key(row, &horizon).is_le()));
        }
        let next_page_token = if rows.len() > self.page_size() {
            rows.truncate(self.page_size());
            rows.last().map(|last| self.token_at(&self.order().key(last)))
        } else {
            horizon.map(|horizon| self.token_at(&horizon.as_key()))
        };
        Page { rows, next_page_token: next_page_token.unwrap_or_default() }
    }

    /// The place up to which all rows are in `parts`: a replica that selected more rows than a page has may have still more
    /// after its last one. Without duplicates, the page ends before it.
    fn horizon(&self, parts: &[Vec<R>]) -> Option<OwnedKey> {
        let order = |left: &&R, right: &&R| self.order().compare(left, right);
        let incomplete = parts.iter().filter(|part| part.len() > self.page_size());
        let last = incomplete.filter_map(|part| part.iter().max_by(order)).min_by(order);
        last.map(|row| OwnedKey::from(&self.order().key(row)))
    }

    /// The rows, one for each name, in the order of their names.
    fn without_duplicates(&self, parts: Vec<Vec<R>>, preference: impl Fn(&R, &R) -> Ordering) -> Vec<R> {
        let mut rows: Vec<R> = parts.into_iter().flatten().collect();
        // Stable: of equal names, that of the first part remains first.
        rows.sort_by(|left, right| self.name_of(left).cmp(self.name_of(right)));
        let mut kept: Vec<R> = Vec::with_capacity(rows.len());
        for row in rows {
            match kept.last_mut() {
                Some(last) if self.name_of(last) == self.name_of(&row) => {
                    if preference(last, &row).is_lt() {
                        *last = row;
                    }
                }
                _ => kept.push(row),
            }
        }
        kept
    }
}
