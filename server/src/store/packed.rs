//! Texts made small, alone or after a sample: an earlier text of the same kind that the reader has as well.
//!
//! A launch differs from the one before it in a few names and a moment. DEFLATE repeats what it has seen in the last 32 KiB by
//! its distance, so a text that follows its sample takes little more than what is new in it. The packer is given the sample
//! first, and what it makes of that is thrown away; the reader is given the sample as stored blocks. Both are DEFLATE as
//! RFC 1951 has it, whichever library packs and unpacks.

use std::io::Read;

use flate2::read::DeflateDecoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Beyond this a sample or a text is packed alone, in bytes: the packer looks back 32 KiB.
pub(crate) const LARGEST_AFTER: usize = 16 << 10;

/// The largest text that is unpacked, in bytes; a packed text that unfolds to more is none of ours.
const LARGEST: u64 = 64 << 20;

/// What a stored block may hold (RFC 1951, 3.2.4).
const BLOCK: usize = 65_535;

/// `text` made small, for readers that have `sample`. Begins with a checksum of the text, so that another sample, or bytes that
/// were changed, are noticed.
pub(crate) fn pack(sample: &[u8], text: &[u8]) -> Vec<u8> {
    let mut packer = Compress::new(Compression::best(), false);
    let mut before = Vec::new();
    if !sample.is_empty() {
        feed(&mut packer, sample, &mut before, FlushCompress::Sync);
    }
    let mut packed = checksum(text).to_vec();
    feed(&mut packer, text, &mut packed, FlushCompress::Finish);
    packed
}

/// What [`pack`] was given, with the same sample; `None` when this is none of its texts.
pub(crate) fn unpack(sample: &[u8], packed: &[u8]) -> Option<Vec<u8>> {
    let (sum, packed) = packed.split_at_checked(4)?;
    let mut stored = Vec::with_capacity(sample.len() + 5 * sample.len().div_ceil(BLOCK) + packed.len());
    for block in sample.chunks(BLOCK) {
        let length = u16::try_from(block.len()).ok()?;
        stored.push(0);
        stored.extend(length.to_le_bytes());
        stored.extend((!length).to_le_bytes());
        stored.extend(block);
    }
    stored.extend(packed);
    let mut text = Vec::new();
    let mut unpacker = DeflateDecoder::new(stored.as_slice());
    unpacker.by_ref().take(LARGEST).read_to_end(&mut text).ok()?;
    let whole = unpacker.total_in() == stored.len() as u64;
    let text = text.split_off(sample.len().min(text.len()));
    (whole && checksum(&text) == sum).then_some(text)
}

fn checksum(text: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(text);
    crc.sum().to_le_bytes()
}

/// Packs all of `bytes` into `out`. Memory takes every byte, so the packer always goes on until it has said all.
fn feed(packer: &mut Compress, bytes: &[u8], out: &mut Vec<u8>, flush: FlushCompress) {
    let begun = packer.total_in();
    loop {
        out.reserve(bytes.len() / 4 + 64);
        let consumed = usize::try_from(packer.total_in() - begun).unwrap_or(bytes.len());
        let told = packer.compress_vec(&bytes[consumed..], out, flush);
        let all_in = packer.total_in() - begun == bytes.len() as u64;
        match told {
            Ok(Status::StreamEnd) | Err(_) => return,
            // With room left after the flush there is nothing more to say.
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
    fn what_was_packed_comes_back_byte_for_byte() {
        for sample in [Vec::new(), order(1), order(1).repeat(50)] {
            for text in [Vec::new(), b"x".to_vec(), order(2), order(3).repeat(40)] {
                assert_eq!(unpack(&sample, &pack(&sample, &text)).as_ref(), Some(&text));
            }
        }
    }

    #[test]
    fn what_the_sample_says_already_costs_next_to_nothing() {
        let (sample, text) = (order(1), order(71_234));
        let (alone, after) = (pack(&[], &text).len(), pack(&sample, &text).len());
        // A checksum of 4 bytes, 5 digits, and repeats of 258 bytes each, 4 bytes at most, of a text below 2,600 bytes.
        assert!(text.len() < 2_600 && after <= 4 + 5 + 4 * 11 + 8, "{alone} alone, {after} after");
        assert!(alone > 5 * after, "{alone} alone, {after} after");
    }

    #[test]
    fn another_sample_and_changed_bytes_are_refused() {
        let packed = pack(&order(1), &order(2));
        let other: Vec<u8> = order(1).into_iter().rev().collect();
        assert_eq!(unpack(&other, &packed), None);
        assert_eq!(unpack(&[], &packed), None);
        assert_eq!(unpack(&order(1), &packed[..packed.len() - 1]), None);
        assert_eq!(unpack(&order(1), &[packed.clone(), vec![0]].concat()), None, "something follows");
        for place in 0..packed.len() {
            let mut changed = packed.clone();
            changed[place] ^= 1;
            assert_ne!(unpack(&order(1), &changed), Some(order(2)), "byte {place}");
        }
    }
}
