//! Tests of several layers together.

#[cfg(not(any(feature = "_shuttle", miri)))]
mod interrupted;
#[cfg(not(feature = "_shuttle"))]
mod races;
#[cfg(feature = "_shuttle")]
mod schedules;
#[cfg(not(feature = "_shuttle"))]
mod sparse;
