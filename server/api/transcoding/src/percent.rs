//! Percent-encoding (RFC 3986), without tolerance: malformed texts are refused.

/// `text` with each `%` and its two digits as the byte that they are; `None` when digits are missing or the bytes are not
/// UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    decode_bytes(text, |_| false)
}

/// The same, but an encoded slash remains, as `%2F`.
pub(crate) fn decode_all_but_slashes(text: &str) -> Option<String> {
    decode_bytes(text, |byte| byte == b'/')
}

fn decode_bytes(text: &str, remains: fn(u8) -> bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let decoded = (digit(rest.next()?)? << 4) | digit(rest.next()?)?;
        if remains(decoded) {
            bytes.extend(format!("%{decoded:02X}").into_bytes());
        } else {
            bytes.push(decoded);
        }
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
