use std::cell::Cell;
use std::cmp::Ordering;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Node, error, named, schema};
use crate::{Argument, ListError, ListRequest, Page, Query};

fn query(request: &ListRequest<'_>) -> Query<Node> {
    Query::new(&schema(), request).unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

fn priced(name: &str, price: i64) -> Node {
    Node { price: Some(price), ..named(name) }
}

fn names(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().map(|node| node.name.as_str()).collect()
}

/// The page of `request` over `replicas`; of rows with one name, the one in the later state is kept.
fn page(request: &ListRequest<'_>, replicas: &[Vec<Node>]) -> Page<Node> {
    let query = query(request);
    let parts = replicas.iter().map(|rows| query.select(rows).into_iter().cloned().collect());
    query.merge(parts.collect(), |left, right| left.state.cmp(&right.state))
}

const BY_PRICE: ListRequest<'_> =
    ListRequest { parent: "clusters/a", filter: "", order_by: "price_micro_usd desc", page_size: 2, page_token: "" };

#[test]
fn pages_continue_after_the_last_row_and_the_last_one_has_no_token() {
    let rows = vec![priced("a", 1), priced("b", 3), priced("c", 2), priced("d", 3)];
    let first = page(&BY_PRICE, std::slice::from_ref(&rows));
    assert_eq!(names(&first.rows), ["b", "d"]);
    let second = page(&ListRequest { page_token: &first.next_page_token, ..BY_PRICE }, &[rows]);
    assert_eq!((names(&second.rows), second.next_page_token.as_str()), (vec!["c", "a"], ""));
}

#[test]
fn a_row_that_was_removed_or_added_moves_no_other_row_across_pages() {
    let first = page(&BY_PRICE, &[vec![priced("a", 1), priced("b", 3), priced("c", 2), priced("d", 3)]]);
    // The last row of the page is gone, and another one is before it.
    let later = vec![priced("0", 9), priced("a", 1), priced("b", 3), priced("c", 2)];
    let second = page(&ListRequest { page_token: &first.next_page_token, ..BY_PRICE }, &[later]);
    assert_eq!(names(&second.rows), ["c", "a"]);
}

#[test]
fn a_page_size_of_0_is_the_default_a_large_one_is_lowered_and_a_negative_one_is_refused() {
    let size = |page_size| query(&ListRequest { page_size, ..BY_PRICE }).page_size();
    assert_eq!((size(0), size(1), size(5), size(6), size(i32::MAX)), (2, 1, 5, 5, 5));
    let refused = Query::new(&schema(), &ListRequest { page_size: -1, ..BY_PRICE }).expect_err("negative");
    assert_eq!(refused, ListError::NegativePageSize(-1));
    assert_eq!(refused.argument().name(), "page_size");
}

#[test]
fn a_token_is_refused_with_any_other_argument_but_the_page_size() {
    let first = page(&BY_PRICE, &[vec![priced("a", 1), priced("b", 3), priced("c", 2)]]);
    let next = ListRequest { page_token: &first.next_page_token, ..BY_PRICE };
    assert!(Query::new(&schema(), &ListRequest { page_size: 5, ..next }).is_ok());
    let others = [
        ListRequest { parent: "clusters/b", ..next },
        ListRequest { filter: "b", ..next },
        ListRequest { order_by: "price_micro_usd", ..next },
        // The same characters in other arguments.
        ListRequest { parent: "clusters/", filter: "a", ..next },
    ];
    for other in others {
        assert_eq!(Query::new(&schema(), &other).expect_err("another list"), ListError::TokenOfOtherList, "{other:?}");
    }
}

#[test]
fn garbage_and_damaged_tokens_are_refused() {
    let first = page(&BY_PRICE, &[vec![priced("a", 1), priced("b", 3), priced("c", 2)]]);
    let token = first.next_page_token;
    let refused =
        |token: &str| Query::new(&schema(), &ListRequest { page_token: token, ..BY_PRICE }).expect_err("damaged");
    for garbage in ["?", "2", "AAAA", "clusters/a", &token[1..], &token[..token.len() - 2], &format!("{token}AA")] {
        assert_eq!(refused(garbage), ListError::MalformedToken, "{garbage}");
    }
    let bytes = URL_SAFE_NO_PAD.decode(&token).expect("a token is url-safe base64");
    for index in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[index] ^= 1;
        let error = refused(&URL_SAFE_NO_PAD.encode(&damaged));
        assert_eq!(error.argument(), Argument::PageToken, "byte {index}");
    }
}

/// The token of these arguments has no place where rows in this order could be: it has another number of values, or values of
/// another type. Only a made-up token, or one of a schema that has changed, is like this.
#[test]
fn a_token_whose_values_are_not_those_of_the_order_is_refused() {
    let of_price = query(&BY_PRICE);
    let of_pool = query(&ListRequest { order_by: "pool", ..BY_PRICE });
    let of_name = query(&ListRequest { order_by: "", ..BY_PRICE });
    let row = Node { pool: Some("p".into()), ..priced("a", 1) };
    let keys = [of_price.order().key(&row), of_pool.order().key(&row), of_name.order().key(&row)];
    let tokens = keys.map(|key| of_price.token_at(&key));
    let made = |token: &String| Query::new(&schema(), &ListRequest { page_token: token, ..BY_PRICE }).map(|_| ());
    assert_eq!(made(&tokens[0]), Ok(()));
    assert_eq!(made(&tokens[1]), Err(ListError::MalformedToken));
    assert_eq!(made(&tokens[2]), Err(ListError::MalformedToken));
}

/// Replicas of one version must make equal fingerprints: a change of the hash or of its input changes this token, and then
/// tokens of the version before are refused during an upgrade.
#[test]
fn the_token_is_the_same_in_every_process() {
    let token = query(&BY_PRICE).token_at(&query(&BY_PRICE).order().key(&priced("b", 3)));
    let bytes = URL_SAFE_NO_PAD.decode(token).expect("base64");
    // Version 1, two hashes of 8 bytes, an integer of 8 bytes with its tag, and a name with tag and length.
    assert_eq!((bytes[0], bytes.len()), (1, 1 + 8 + 8 + 9 + 6));
    assert_eq!(&bytes[17..], b"i\0\0\0\0\0\0\0\x03s\0\0\0\x01b");
    // FNV-1a of "foobar", from the authors' test vectors.
    assert_eq!(crate::page_token::fnv1a(crate::page_token::FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn pages_by_name_read_only_up_to_their_end() {
    let rows: Vec<Node> = (0..100).map(|index| named(&format!("n{index:02}"))).collect();
    let request = ListRequest { order_by: "", page_size: 3, ..BY_PRICE };
    let read = Cell::new(0);
    let counted = || rows.iter().inspect(|_| read.set(read.get() + 1));
    let first = query(&request).select_from_named(counted());
    assert_eq!((first.len(), read.get()), (4, 4));
    let token =
        query(&request).merge(vec![first.into_iter().cloned().collect()], |_, _| Ordering::Equal).next_page_token;
    let second = query(&ListRequest { page_token: &token, ..request });
    assert_eq!(second.after_name(), Some("n02"));
    let selected: Vec<&str> = second.select_from_named(&rows).into_iter().map(|node| node.name.as_str()).collect();
    assert_eq!(selected, ["n03", "n04", "n05", "n06"]);
    // In another order all rows are read, and none is where the page begins.
    read.set(0);
    let descending = query(&ListRequest { order_by: "name desc", ..request });
    assert_eq!(descending.select_from_named(counted())[0].name, "n99");
    assert_eq!((read.get(), descending.after_name()), (100, None));
}

#[test]
fn of_rows_with_one_name_the_preferred_one_is_kept() {
    let in_state = |name: &str, state, price| Node { state: Some(state), ..priced(name, price) };
    let old = vec![in_state("a", "ACTIVE", 7), in_state("b", "PENDING", 6)];
    let new = vec![in_state("a", "PENDING", 1), in_state("b", "PENDING", 6), in_state("c", "ACTIVE", 5)];
    let request = ListRequest { page_size: 5, ..BY_PRICE };
    for replicas in [[old.clone(), new.clone()], [new, old]] {
        let found = page(&request, &replicas);
        // The texts PENDING and ACTIVE are compared: PENDING is later.
        assert_eq!(names(&found.rows), ["b", "c", "a"]);
        assert_eq!((found.rows[2].price, found.next_page_token.as_str()), (Some(1), ""));
    }
}

/// Replica 1 sends 9, 8 and 7, and has 6 still. Of these, 9 and 8 are replaced by copies of replica 2 that come last. If the page
/// were filled with row "x" of replica 2, the row with 6 would be lost, as the next page begins after "x".
#[test]
fn a_page_ends_where_a_replica_may_have_more_rows() {
    let copy = |name: &str, price, state| Node { state: Some(state), ..priced(name, price) };
    let one = vec![copy("a", 9, "A"), copy("b", 8, "A"), priced("c", 7), priced("d", 6)];
    let two = vec![priced("x", 5), copy("a", 1, "B"), copy("b", 1, "B")];
    let replicas = [one, two];
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let page = page(&ListRequest { page_token: &token, ..BY_PRICE }, &replicas);
        assert!(found.len() < 7, "the list does not end: {found:?}");
        found.push(names(&page.rows).join(" "));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(found, ["c", "d x", "a b"]);
}

#[test]
fn arguments_are_checked_before_any_row() {
    let of = |request| error(Query::new(&schema(), &request));
    assert!(of(ListRequest { filter: "nme = a", ..BY_PRICE }).starts_with("filter names an unknown field"));
    assert!(of(ListRequest { order_by: "nme", ..BY_PRICE }).starts_with("order_by names an unknown field"));
    assert!(of(ListRequest { page_token: "x", ..BY_PRICE }).starts_with("page_token is none of a next_page_token"));
}
