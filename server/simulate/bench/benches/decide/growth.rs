//! Growth of time with size.

/// The exponent of the power law through `points` (size, time), by least squares on logarithms.
/// `None` with fewer than three sizes.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 3 || points.iter().any(|(size, time)| *size <= 0.0 || *time <= 0.0) {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(size, time)| (size.ln(), time.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let slope = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    Some(slope / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>())
}
