//! What one replica selects for a page.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use crate::order::SortKey;
use crate::page_token::{self, Fingerprint, OwnedKey};
use crate::{Filter, ListError, OrderBy, PageSizes, Schema};

/// The arguments of a list request, as the client sent them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListRequest<'a> {
    /// The resource that the list belongs to, for example `clusters/a`; empty for a list of all.
    pub parent: &'a str,
    /// See the crate's documentation. Empty: all rows.
    pub filter: &'a str,
    /// Fields with commas between them, `desc` after those in descending order. Empty: by name.
    pub order_by: &'a str,
    /// The most rows of the page; 0 for the schema's default.
    pub page_size: i32,
    /// The `next_page_token` of the page before; empty for the first page.
    pub page_token: &'a str,
}

/// A page of a list of rows of type `R`. Replicas that make it from the same request select parts of the same page.
pub struct Query<R> {
    filter: Filter<R>,
    order: OrderBy<R>,
    name: fn(&R) -> &str,
    page_size: usize,
    after: Option<OwnedKey>,
    fingerprint: Fingerprint,
}

impl<R> Query<R> {
    /// The page that `request` asks for.
    ///
    /// # Errors
    ///
    /// An argument is wrong; [`ListError::argument`] says which.
    pub fn new(schema: &Schema<R>, request: &ListRequest<'_>) -> Result<Self, ListError> {
        let page_size = page_size(request.page_size, schema.page_sizes())?;
        let filter = Filter::parse(request.filter, schema)?;
        let order = OrderBy::parse(request.order_by, schema)?;
        let arguments = [schema.collection(), request.parent, request.filter, request.order_by];
        let fingerprint = Fingerprint::of(&arguments);
        let after = match request.page_token {
            "" => None,
            token => Some(page_token::decode(token, fingerprint)?),
        };
        if after.as_ref().is_some_and(|key| !order.has_types_of(&key.as_key())) {
            return Err(ListError::MalformedToken);
        }
        Ok(Self { filter, order, name: schema.name(), page_size, after, fingerprint })
    }

    /// The most rows of the page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// The first rows of `rows` that belong to the page, in its order: at most one more than the page has, which shows that
    /// there are more. Keeps no other rows, and sorts no others.
    #[must_use]
    pub fn select<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> Vec<&'r R> {
        let wanted = self.page_size.saturating_add(1);
        let mut first: BinaryHeap<Ranked<'_, 'r, R>> = BinaryHeap::new();
        let after = self.after.as_ref().map(OwnedKey::as_key);
        for row in rows {
            let ranked = Ranked { row, order: &self.order };
            // The comparison is cheaper than the filter, and most rows of a long list come after its page.
            let is_full = first.len() == wanted;
            if is_full && first.peek().is_some_and(|last| ranked >= *last) {
                continue;
            }
            let is_on_earlier_page = |key| self.order.compare_with_key(row, key).is_le();
            if after.as_ref().is_some_and(is_on_earlier_page) || !self.filter.matches(row) {
                continue;
            }
            if is_full {
                first.pop();
            }
            first.push(ranked);
        }
        first.into_sorted_vec().into_iter().map(|ranked| ranked.row).collect()
    }

    /// The same as [`Query::select`] for `rows` in ascending order of their names, as a map by name has them. Reads only up
    /// to the end of the page where the page has this order ([`Query::is_by_name`]).
    #[must_use]
    pub fn select_from_named<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> Vec<&'r R> {
        if !self.is_by_name() {
            return self.select(rows);
        }
        let after = self.after_name();
        let is_on_page = |row: &&R| after.is_none_or(|name| (self.name)(row) > name) && self.filter.matches(row);
        rows.into_iter().filter(is_on_page).take(self.page_size.saturating_add(1)).collect()
    }

    /// Whether the page is in ascending order of names.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        self.order.is_by_name()
    }

    /// The name after which the page begins, where its order is by name: rows up to it need not be passed to
    /// [`Query::select_from_named`].
    #[must_use]
    pub fn after_name(&self) -> Option<&str> {
        self.after.as_ref().filter(|_| self.is_by_name()).map(|key| key.as_key().name)
    }

    pub(crate) fn order(&self) -> &OrderBy<R> {
        &self.order
    }

    pub(crate) fn name_of<'r>(&self, row: &'r R) -> &'r str {
        (self.name)(row)
    }

    /// The token of the page after the one that ends at `key`.
    pub(crate) fn token_at(&self, key: &SortKey<'_>) -> String {
        page_token::encode(self.fingerprint, key)
    }
}

impl<R> fmt::Debug for Query<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Query");
        shown.field("order", &self.order).field("page_size", &self.page_size).field("after", &self.after).finish()
    }
}

fn page_size(requested: i32, sizes: PageSizes) -> Result<usize, ListError> {
    match usize::try_from(requested) {
        Err(_) => Err(ListError::NegativePageSize(requested)),
        Ok(0) => Ok(sizes.default.max(1)),
        Ok(size) => Ok(size.min(sizes.maximum.max(1))),
    }
}

/// A row as a heap orders it.
struct Ranked<'q, 'r, R> {
    row: &'r R,
    order: &'q OrderBy<R>,
}

impl<R> Ord for Ranked<'_, '_, R> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(self.row, other.row)
    }
}
impl<R> PartialOrd for Ranked<'_, '_, R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<R> PartialEq for Ranked<'_, '_, R> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<R> Eq for Ranked<'_, '_, R> {}
