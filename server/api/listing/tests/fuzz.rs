//! Random filters, orders and tokens never panic, in the parser or on rows. `FUZZ_SECONDS` is the length of the run, and
//! `FUZZ_SEED` another seed; without them the run has a fixed number of texts.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the length of a run is a time")]

use std::time::{Duration, Instant};

use listing::{Expression, Filter, ListRequest, OrderBy, PageSizes, Query, Schema};

struct Row {
    name: String,
    text: Option<String>,
    number: Option<i64>,
}

fn schema() -> Schema<Row> {
    Schema::new("rows", PageSizes { default: 10, maximum: 100 }, "name", |row: &Row| &row.name)
        .text("text", |row| row.text.as_deref())
        .int("number", |row| row.number)
        .boolean("flag", |row| row.number.map(|number| number > 0))
        .timestamp("time", |row| row.number)
        .enumeration("state", &["A", "B"], |row| row.text.as_deref())
        .texts("texts", |row, index| row.text.as_deref()?.split(' ').nth(index))
        .map("labels", |row, key| row.text.as_deref().filter(|text| text.contains(key)))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }
}

const TOKENS: [&str; 48] = [
    "AND",
    "OR",
    "NOT",
    "-",
    "(",
    ")",
    "((",
    "))",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    ":",
    "*",
    "\"",
    "'",
    "\\",
    "\"a*b\"",
    "'\\*'",
    "name",
    "text",
    "number",
    "flag",
    "time",
    "state",
    "texts",
    "labels",
    "labels.a",
    "labels.\"b c\"",
    ".",
    ",",
    "desc",
    "asc",
    "1",
    "-9223372036854775808",
    "9223372036854775808",
    "true",
    "false",
    "A",
    "2026-01-01T00:00:00Z",
    "é",
    "\u{0}",
    "\u{10ffff}",
    "a",
    "a b",
    "\n",
];

fn soup(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..random.below(24) {
        text.push_str(random.one_of(&TOKENS));
        text.push_str(random.one_of(&["", " ", " "]));
    }
    text
}

fn bytes(random: &mut Random) -> String {
    let bytes: Vec<u8> = (0..random.below(64)).map(|_| random.next().to_le_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A token with a few changed characters.
fn damaged(token: &str, random: &mut Random) -> String {
    let mut characters: Vec<char> = token.chars().collect();
    for _ in 0..random.below(4) {
        let at = random.below(characters.len());
        characters[at] = random.one_of(&["A", "_", "-", "9", "=", "z"]).chars().next().expect("a character");
    }
    characters.truncate(1 + random.below(characters.len() * 2));
    characters.into_iter().collect()
}

fn run(text: &str, schema: &Schema<Row>, rows: &[Row]) -> bool {
    let Ok(expression) = Expression::parse(text) else { return false };
    let printed = expression.to_string();
    let again =
        Expression::parse(&printed).unwrap_or_else(|error| panic!("{text:?} is printed as {printed:?}: {error}"));
    assert_eq!(again.to_string(), printed, "{text:?}");
    let (Ok(filter), Ok(same)) = (Filter::new(&expression, schema), Filter::new(&again, schema)) else { return false };
    for row in rows {
        assert_eq!(filter.matches(row), same.matches(row), "{text:?} is printed as {printed:?}");
    }
    true
}

#[test]
fn random_texts_never_panic_and_are_printed_as_the_same_filter() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let end = variable("FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = Random(variable("FUZZ_SEED").unwrap_or(1));
    let schema = schema();
    let rows = ["", "a", "a b", "A", "é*"].map(|text| Row {
        name: format!("{text}1"),
        text: (!text.is_empty()).then(|| text.to_owned()),
        number: text.len().checked_sub(1).and_then(|number| i64::try_from(number).ok()),
    });
    let first = ListRequest { order_by: "number, text", page_size: 1, ..ListRequest::default() };
    let query = Query::new(&schema, &first).expect("a request");
    let part = query.select(&rows).into_iter().map(|row| Row { name: row.name.clone(), text: None, number: None });
    let token = query.merge(vec![part.collect()], |_, _| std::cmp::Ordering::Equal).next_page_token;
    let (mut filters, mut orders, mut texts) = (0u64, 0u64, 0u64);
    while end.map_or(texts < 20_000, |end| Instant::now() < end) {
        for text in [soup(&mut random), bytes(&mut random)] {
            filters += u64::from(run(&text, &schema, &rows));
            orders += u64::from(OrderBy::parse(&text, &schema).is_ok());
            texts += 1;
        }
        let token = damaged(&token, &mut random);
        if let Ok(query) = Query::new(&schema, &ListRequest { page_token: &token, ..first }) {
            assert!(query.select(&rows).len() <= 2);
        }
    }
    println!("texts={texts} filters={filters} orders={orders}");
    assert!(filters > texts / 1_000 && orders > 0, "too few texts are filters: filters={filters} orders={orders}");
}
