//! Texts of numbers. A text that would be wider than its column has fewer digits and never lacks its end.

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// With commas between thousands: `12,345`.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `value / unit` with this number of decimals, rounded half up.
fn decimal(value: i64, unit: i64, decimals: u32) -> String {
    let power = 10_i128.pow(decimals);
    let unit = i128::from(unit);
    let scaled = (i128::from(value.unsigned_abs()) * power * 2 + unit) / (2 * unit);
    let sign = if value < 0 && scaled > 0 { "-" } else { "" };
    let whole = scaled / power;
    if decimals == 0 {
        return format!("{sign}{whole}");
    }
    format!("{sign}{whole}.{:0>width$}", scaled % power, width = decimals as usize)
}

/// With commas, and this number of decimals.
fn grouped_decimal(value: i64, unit: i64, decimals: u32) -> String {
    let text = decimal(value, unit, decimals);
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let grouped = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

/// The first of these that fits, or the last one.
fn fitting(texts: impl Iterator<Item = String>, width: usize) -> String {
    let mut last = String::new();
    for text in texts {
        last = text;
        if last.len() <= width {
            break;
        }
    }
    last
}

/// Micro-dollars as dollars: four decimals, fewer, then thousands (`12.3k`) and millions.
pub(crate) fn dollars(micro_usd: i64, width: usize) -> String {
    let plain = (0..=4).rev().map(|decimals| decimal(micro_usd, 1_000_000, decimals));
    let thousands = (0..=1).rev().map(|decimals| decimal(micro_usd, 1_000_000_000, decimals) + "k");
    let millions = (0..=1).rev().map(|decimals| decimal(micro_usd, 1_000_000_000_000, decimals) + "M");
    fitting(plain.chain(thousands).chain(millions), width)
}

/// Micro-dollars as `$1,234.56`.
pub(crate) fn dollars_and_cents(micro_usd: i64) -> String {
    format!("${}", grouped_decimal(micro_usd, 1_000_000, 2))
}

/// Micro-dollars as `$1,235`.
pub(crate) fn whole_dollars(micro_usd: i64) -> String {
    format!("${}", grouped_decimal(micro_usd, 1_000_000, 0))
}

/// A number of things: `1234`, `12k` where that is too wide, `3M`.
pub(crate) fn count(number: u32, width: usize) -> String {
    let number = i64::from(number);
    let thousands = || decimal(number, 1_000, 0) + "k";
    let millions = || decimal(number, 1_000_000, 0) + "M";
    fitting([number.to_string(), thousands(), millions()].into_iter(), width)
}

/// Millicores as cores with one decimal.
pub(crate) fn cores(millis: i64) -> String {
    decimal(millis, 1_000, 1)
}

/// Bytes as GiB with one decimal.
pub(crate) fn gibibytes(bytes: i64) -> String {
    decimal(bytes, GIB, 1)
}

/// As [`cores`], with commas.
pub(crate) fn grouped_cores(millis: i64) -> String {
    grouped_decimal(millis, 1_000, 1)
}

/// As [`gibibytes`], with commas.
pub(crate) fn grouped_gibibytes(bytes: i64) -> String {
    grouped_decimal(bytes, GIB, 1)
}

/// A request of CPU: `250m`; whole cores from ten cores on.
pub(crate) fn cpu_request(millis: i64) -> String {
    if millis < 10_000 { format!("{millis}m") } else { decimal(millis, 1_000, 0) }
}

/// A request of memory: `512Mi`; GiB from ten GiB on.
pub(crate) fn memory_request(bytes: i64) -> String {
    if bytes < 10 * GIB { format!("{}Mi", decimal(bytes, MIB, 0)) } else { format!("{}Gi", decimal(bytes, GIB, 0)) }
}

/// How long ago: `3d`, `4h`, `5m`, `6s`, and from 1,000 days on in years of 365 days; empty if that is not known.
pub(crate) fn age(since_ms: Option<i64>, now_ms: i64) -> String {
    const THOUSAND_DAYS: i64 = 86_400_000;
    let Some(since_ms) = since_ms else { return String::new() };
    let seconds = now_ms.saturating_sub(since_ms).max(0) / 1_000;
    match seconds {
        THOUSAND_DAYS.. => format!("{}y", seconds / 31_536_000),
        86_400.. => format!("{}d", seconds / 86_400),
        3_600.. => format!("{}h", seconds / 3_600),
        60.. => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// Thousandths as a percentage, rounded down: `100%` is all of it. `-` without a value.
pub(crate) fn percent(permille: Option<i64>) -> String {
    permille.map_or_else(|| "-".to_owned(), |permille| format!("{}%", permille / 10))
}

/// A bar of this width. Nothing is drawn beyond its end.
pub(crate) fn bar(permille: i64, width: usize) -> String {
    let cells = i64::try_from(width).unwrap_or(0);
    let filled = usize::try_from((permille.clamp(0, 1_000) * cells + 500) / 1_000).unwrap_or(0);
    format!("{}{}", "█".repeat(filled), "░".repeat(width - filled))
}

/// The text, or its beginning with `…` where it is wider.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}
