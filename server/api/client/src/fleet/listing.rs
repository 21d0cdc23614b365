//! Pages of a list, put together.

use super::kinds::{Kind, Selection};
use crate::remote::{FleetClient, rpc_failure};
use command::exit::Failure;

/// Rows that are asked for at one time.
const PAGE_SIZE: i32 = 1_000;

/// All pages of a list, or the first rows of it.
pub(super) struct Listed<R> {
    pub(super) rows: Vec<R>,
    pub(super) resume_token: String,
    pub(super) unreachable: Vec<String>,
}

pub(super) async fn list<K: Kind>(
    client: &mut FleetClient,
    selection: &Selection,
    limit: usize,
) -> Result<Listed<K::Row>, Failure> {
    let size = PAGE_SIZE.min(i32::try_from(limit).unwrap_or(PAGE_SIZE));
    let first = K::page(client, selection, (size, String::new())).await.map_err(rpc_failure)?;
    let mut listed = Listed { rows: first.rows, resume_token: first.resume_token, unreachable: first.unreachable };
    let mut token = first.next_page_token;
    while !token.is_empty() && listed.rows.len() < limit {
        let page = K::page(client, selection, (size, token)).await.map_err(rpc_failure)?;
        listed.rows.extend(page.rows);
        listed.unreachable.extend(page.unreachable);
        token = page.next_page_token;
    }
    listed.rows.truncate(limit);
    listed.unreachable.sort_unstable();
    listed.unreachable.dedup();
    Ok(listed)
}
