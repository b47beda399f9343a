//! Reads the labels that a hand scanner sees.
pub mod barcode;

use barcode::{check_digit, Barcode};

/// Turns the raw bytes of a scan into a barcode, or says what is wrong with them.
pub fn decode(raw: &[u8]) -> Result<Barcode, ScanError> {
    let text = std::str::from_utf8(raw).map_err(|_| ScanError::NotText)?.trim();
    let (digits, last) = text.split_at(text.len().saturating_sub(1));
    if last.parse() != Ok(check_digit(digits)) {
        return Err(ScanError::Smudged);
    }
    Ok(Barcode(digits.to_owned()))
}

#[derive(Debug, PartialEq)]
pub enum ScanError {
    NotText,
    Smudged,
}
