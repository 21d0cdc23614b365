//! Properties on random rows and filters. `PROPTEST_CASES=10000` runs more of them.

use std::cmp::Ordering;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::{Node, STATES, named, schema};
use crate::syntax::{Comparator, Literal, Node as Part, Term};
use crate::{Expression, Filter, ListRequest, OrderBy, Query};

fn node() -> impl Strategy<Value = Node> {
    let text = option::of("[ab]{0,2}");
    let state = option::of(0..STATES.len());
    let values = (text, option::of(-2..3i64), option::of(any::<bool>()), option::of(-1..2i64), state);
    let zones = vec("[ab]", 0..3);
    let labels = btree_map("[kl.]{1,2}", "[ab*]{0,2}", 0..3);
    (values, zones, labels).prop_map(|((pool, price, is_spot, created, state), zones, labels)| {
        let state = state.map(|index| STATES[index]);
        Node { pool, price, is_spot, created, state, zones, labels, ..Node::default() }
    })
}

/// Rows with names in another order than that of the list.
fn nodes() -> impl Strategy<Value = Vec<Node>> {
    vec(node(), 0..40).prop_map(|nodes| {
        let count = nodes.len();
        let name = |index: usize| format!("n{:02}", (index * 7 + 3) % (count * 7 + 1));
        nodes.into_iter().enumerate().map(|(index, node)| Node { name: name(index), ..node }).collect()
    })
}

fn filter() -> impl Strategy<Value = String> {
    let of = |texts: &'static [&'static str]| proptest::sample::select(texts);
    let term = of(&[
        "n",
        "1*",
        "pool:a",
        "pool = a*",
        "pool != b",
        "price_micro_usd > -1",
        "price_micro_usd:*",
        "spot = true",
        "state != ACTIVE",
        "zones:a",
        "labels.k = b",
        "labels:l",
        "create_time > 1970-01-01T00:00:00Z",
    ]);
    (vec((of(&["", "NOT ", "-"]), term), 0..4), of(&[" ", " OR ", " AND "])).prop_map(|(terms, operator)| {
        let terms: Vec<String> = terms.into_iter().map(|(not, term)| format!("{not}{term}")).collect();
        terms.join(operator)
    })
}

fn order() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(
        &[
            "",
            "name desc",
            "pool",
            "pool desc, price_micro_usd",
            "spot, state desc",
            "create_time desc",
            "labels.k",
            "labels.k desc, spot, name desc",
            "price_micro_usd",
        ][..],
    )
}

fn whole(nodes: &[Node], filter: &str, order_by: &str) -> Vec<String> {
    let filter = Filter::parse(filter, &schema()).expect(filter);
    let order = OrderBy::parse(order_by, &schema()).expect(order_by);
    let mut rows: Vec<&Node> = nodes.iter().filter(|node| filter.matches(node)).collect();
    rows.sort_by(|left, right| order.compare(left, right));
    rows.into_iter().map(|node| node.name.clone()).collect()
}

/// Names on all pages, each page's size that of the list of sizes, again and again.
fn by_pages(replicas: &[Vec<Node>], filter: &str, order_by: &str, sizes: &[i32]) -> Vec<String> {
    let mut found = Vec::new();
    let mut token = String::new();
    let rows: usize = replicas.iter().map(Vec::len).sum();
    for (pages, page_size) in sizes.iter().cycle().enumerate() {
        assert!(pages <= rows, "the list does not end");
        let request = ListRequest { parent: "", filter, order_by, page_size: *page_size, page_token: &token };
        let query = Query::new(&schema(), &request).expect("a request of these arguments");
        let parts = replicas.iter().map(|rows| query.select(rows).into_iter().cloned().collect::<Vec<_>>());
        let parts: Vec<Vec<Node>> = parts.collect();
        assert!(parts.iter().all(|part| part.len() <= query.page_size() + 1), "a part is longer than needed");
        let page = query.merge(parts, |_, _| Ordering::Equal);
        assert!(page.rows.len() <= query.page_size(), "a page is too long");
        found.extend(page.rows.into_iter().map(|node| node.name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    found
}

fn literal() -> impl Strategy<Value = Literal> {
    vec(prop_oneof!["[a-z\\-.:AND]{0,3}", "\\PC{0,3}", "[\"'\\\\*()]{0,2}"], 1..4).prop_map(Literal)
}

fn field() -> impl Strategy<Value = (String, Comparator)> {
    let path = prop_oneof!["[a-z_]{1,4}", "[a-z]{1,2}\\.[a-z/.\"'* \\\\é]{0,4}"];
    let comparator = proptest::sample::select(
        &[
            Comparator::Equal,
            Comparator::NotEqual,
            Comparator::Less,
            Comparator::LessOrEqual,
            Comparator::Greater,
            Comparator::GreaterOrEqual,
            Comparator::Has,
        ][..],
    );
    (path, comparator)
}

/// Any expression whose groups have at least two parts.
fn expression() -> impl Strategy<Value = Part> {
    let term = (option::of(field()), literal());
    let term = term.prop_map(|(field, literal)| Part::Term(Term { position: 0, field, literal }));
    term.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(Part::All),
            vec(inner.clone(), 2..4).prop_map(Part::Any),
            inner.prop_map(|part| Part::Not(Box::new(part))),
        ]
    })
}

fn without_positions(part: &Part) -> Part {
    match part {
        Part::All(parts) => Part::All(parts.iter().map(without_positions).collect()),
        Part::Any(parts) => Part::Any(parts.iter().map(without_positions).collect()),
        Part::Not(part) => Part::Not(Box::new(without_positions(part))),
        Part::Term(term) => Part::Term(Term { position: 0, ..term.clone() }),
    }
}

proptest! {
    #[test]
    fn pages_of_any_size_are_the_sorted_filtered_whole(
        nodes in nodes(), filter in filter(), order_by in order(), sizes in vec(1..6i32, 1..4)
    ) {
        let expected = whole(&nodes, &filter, order_by);
        prop_assert_eq!(by_pages(&[nodes], &filter, order_by, &sizes), expected);
    }

    #[test]
    fn rows_that_are_split_over_replicas_have_the_same_pages(
        nodes in nodes(), filter in filter(), order_by in order(), sizes in vec(1..6i32, 1..4),
        owners in vec(0..4usize, 40), copies in vec(any::<bool>(), 40)
    ) {
        let mut replicas = vec![Vec::new(); 4];
        for ((node, owner), is_copied) in nodes.iter().zip(owners).zip(copies) {
            replicas[owner].push(node.clone());
            if is_copied {
                replicas[(owner + 1) % 4].push(node.clone());
            }
        }
        prop_assert_eq!(by_pages(&replicas, &filter, order_by, &sizes), whole(&nodes, &filter, order_by));
    }

    #[test]
    fn named_rows_have_the_same_pages(mut nodes in nodes(), filter in filter(), order_by in order(), page_size in 1..6i32) {
        nodes.sort_by(|left, right| left.name.cmp(&right.name));
        let request = ListRequest { filter: &filter, order_by, page_size, ..ListRequest::default() };
        let query = Query::new(&schema(), &request).expect("a request");
        prop_assert_eq!(query.select_from_named(&nodes), query.select(&nodes));
    }

    #[test]
    fn a_printed_expression_is_parsed_to_itself(part in expression()) {
        let text = Expression::new(part.clone()).to_string();
        let parsed = Expression::parse(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(without_positions(parsed.root()), part, "{}", text);
        prop_assert_eq!(parsed.to_string(), text);
    }

    /// All ways to put the parts into the text, against the search from the left.
    #[test]
    fn patterns_match_what_some_split_of_the_text_matches(parts in vec("[ab]{0,2}", 1..5), text in "[ab]{0,7}") {
        fn is_match(text: &str, parts: &[String]) -> bool {
            match parts {
                [last] => text == last,
                [first, rest @ ..] => text.strip_prefix(first.as_str()).is_some_and(|text| {
                    (0..=text.len()).any(|skipped| is_match(&text[skipped..], rest))
                }),
                [] => false,
            }
        }
        let filter = Filter::parse(&format!("name = \"{}\"", parts.join("*")), &schema()).expect("a filter");
        prop_assert_eq!(filter.matches(&named(&text)), is_match(&text, &parts));
    }
}
