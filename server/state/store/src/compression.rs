//! DEFLATE with a preset dictionary (RFC 1951).
//!
//! A launch differs from the previous one in a few names and a timestamp. DEFLATE references
//! repetitions in the last 32 KiB, so a text compressed after its dictionary takes little more than
//! its new parts. The compressor is fed the dictionary first, and that output is discarded; the
//! decompressor gets the dictionary as stored blocks. Both streams are plain RFC 1951, independent
//! of the library.

use std::io::Read;

use flate2::read::DeflateDecoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Maximum size, in bytes, of a dictionary and of a text compressed with one: the window of DEFLATE
/// is 32 KiB.
pub const MAX_WITH_DICTIONARY: usize = 16 << 10;

/// Maximum decompressed size, in bytes; a larger text was not written by this program.
const LARGEST: u64 = 64 << 20;

/// Maximum length of a stored block (RFC 1951, 3.2.4).
const BLOCK: usize = 65_535;

/// Compresses `text` with the dictionary `dictionary`. The output begins with a checksum of the text,
/// which detects another dictionary and changed bytes.
pub fn compress(dictionary: &[u8], text: &[u8]) -> Vec<u8> {
    let mut compressor = Compress::new(Compression::best(), false);
    let mut before = Vec::new();
    if !dictionary.is_empty() {
        feed(&mut compressor, dictionary, &mut before, FlushCompress::Sync);
    }
    let mut compressed = checksum(text).to_vec();
    feed(&mut compressor, text, &mut compressed, FlushCompress::Finish);
    compressed
}

/// Inverse of [`compress`] with the same dictionary; `None` when the checksum or the stream is
/// invalid.
pub fn decompress(dictionary: &[u8], compressed: &[u8]) -> Option<Vec<u8>> {
    let (sum, compressed) = compressed.split_at_checked(4)?;
    let mut stored = Vec::with_capacity(dictionary.len() + 5 * dictionary.len().div_ceil(BLOCK) + compressed.len());
    for block in dictionary.chunks(BLOCK) {
        let length = u16::try_from(block.len()).ok()?;
        stored.push(0);
        stored.extend(length.to_le_bytes());
        stored.extend((!length).to_le_bytes());
        stored.extend(block);
    }
    stored.extend(compressed);
    let mut text = Vec::new();
    let mut decompressor = DeflateDecoder::new(stored.as_slice());
    decompressor.by_ref().take(LARGEST).read_to_end(&mut text).ok()?;
    let whole = decompressor.total_in() == stored.len() as u64;
    let text = text.split_off(dictionary.len().min(text.len()));
    (whole && checksum(&text) == sum).then_some(text)
}

fn checksum(text: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(text);
    crc.sum().to_le_bytes()
}

/// Compresses all of `bytes` into `out`, until the compressor has consumed and flushed everything.
fn feed(compressor: &mut Compress, bytes: &[u8], out: &mut Vec<u8>, flush: FlushCompress) {
    let begun = compressor.total_in();
    loop {
        out.reserve(bytes.len() / 4 + 64);
        let consumed = usize::try_from(compressor.total_in() - begun).unwrap_or(bytes.len());
        let status = compressor.compress_vec(&bytes[consumed..], out, flush);
        let all_in = compressor.total_in() - begun == bytes.len() as u64;
        match status {
            Ok(Status::StreamEnd) | Err(_) => return,
            // Spare capacity after the flush means that the output is complete.
            Ok(_) if flush == FlushCompress::Sync && all_in && out.len() < out.capacity() => return,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(pod: u32) -> Vec<u8> {
        let options =
            (0..60).map(|n| format!("[\"c{n}a.4xlarge\",\"us-east-1{n}\",{}]", n * 7_919)).collect::<String>();
        format!("{{\"pool\":\"web\",\"options\":{options},\"pods\":[\"shop/web-{pod}\"]}}").into_bytes()
    }

    #[test]
    fn compressed_texts_decompress_byte_for_byte() {
        for dictionary in [Vec::new(), order(1), order(1).repeat(50)] {
            for text in [Vec::new(), b"x".to_vec(), order(2), order(3).repeat(40)] {
                assert_eq!(decompress(&dictionary, &compress(&dictionary, &text)).as_ref(), Some(&text));
            }
        }
    }

    #[test]
    fn a_text_that_repeats_its_dictionary_takes_few_bytes() {
        let (dictionary, text) = (order(1), order(71_234));
        let (alone, after) = (compress(&[], &text).len(), compress(&dictionary, &text).len());
        // A checksum of 4 bytes, 5 digits, and repeats of 258 bytes each, 4 bytes at most, of a text below 2,600 bytes.
        assert!(text.len() < 2_600 && after <= 4 + 5 + 4 * 11 + 8, "{alone} alone, {after} after");
        assert!(alone > 5 * after, "{alone} alone, {after} after");
    }

    #[test]
    fn another_dictionary_and_changed_bytes_are_rejected() {
        let compressed = compress(&order(1), &order(2));
        let other: Vec<u8> = order(1).into_iter().rev().collect();
        assert_eq!(decompress(&other, &compressed), None);
        assert_eq!(decompress(&[], &compressed), None);
        assert_eq!(decompress(&order(1), &compressed[..compressed.len() - 1]), None);
        assert_eq!(decompress(&order(1), &[compressed.clone(), vec![0]].concat()), None, "trailing bytes");
        for place in 0..compressed.len() {
            let mut changed = compressed.clone();
            changed[place] ^= 1;
            assert_ne!(decompress(&order(1), &changed), Some(order(2)), "byte {place}");
        }
    }
}
