//! Numbers that messages name, as literals for `concat!`. The constants are made of them.

macro_rules! max_name {
    () => {
        255
    };
}
