//! Time of the first page of 100,000 rows: `cargo bench -p fleetwright-listing`.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use listing::{ListRequest, PageSizes, Query, Schema};

const ROWS: u32 = 100_000;
const RUNS: usize = 21;

struct Row {
    name: String,
    pool: String,
    price: i64,
    team: String,
}

fn rows() -> Vec<Row> {
    let row = |index: u32| Row {
        name: format!("clusters/c{:03}/nodes/ip-10-{}-{}", index / 500, index / 250, index % 250),
        pool: format!("pool-{}", index % 17),
        // A permutation of the prices, so that rows are in no order.
        price: i64::from(index.wrapping_mul(2_654_435_761) % 1_000_003),
        team: format!("team-{}", index % 29),
    };
    (0..ROWS).map(row).collect()
}

fn schema() -> Schema<Row> {
    Schema::new("nodes", PageSizes { default: 100, maximum: 1_000 }, "name", |row: &Row| &row.name)
        .text("pool", |row| Some(&row.pool))
        .int("price_micro_usd", |row| Some(row.price))
        .map("labels", |row, key| (key == "team").then_some(row.team.as_str()))
}

/// The median of the times, and the rows of the page with the one after it.
fn measure(request: &ListRequest<'_>, schema: &Schema<Row>, rows: &[Row]) -> (Duration, usize) {
    let mut selected = 0;
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let query = Query::new(schema, request).expect("a request of this schema");
            selected = black_box(query.select(black_box(rows))).len();
            start.elapsed()
        })
        .collect();
    times.sort();
    (times[RUNS / 2], selected)
}

fn main() {
    let (rows, schema) = (rows(), schema());
    let filters = [
        ("no filter", ""),
        ("one row in 17", "pool = pool-3"),
        ("texts and numbers", "pool = pool-1* AND labels.team:* AND price_micro_usd > 1000 AND -name = *-7"),
        ("part of a name", "nodes/ip-10-399"),
        ("nothing", "labels.team = *x*y*z"),
    ];
    println!("{ROWS} rows, pages of 100 and of 1,000 rows, median of {RUNS} runs in milliseconds");
    for (name, filter) in filters {
        for order_by in ["", "price_micro_usd", "price_micro_usd desc"] {
            for page_size in [100, 1_000] {
                let request = ListRequest { filter, order_by, page_size, ..ListRequest::default() };
                let (time, selected) = measure(&request, &schema, &rows);
                let millis = time.as_secs_f64() * 1_000.0;
                println!("{name:<18} order={order_by:<22} page={page_size:<5} selected={selected:<5} {millis:>8.2}");
            }
        }
    }
}
