//! Which characters are unsafe to print when they come from outside.
//!
//! A terminal obeys control characters, and some Unicode characters reorder or hide the text around
//! them. Text from the workspace, a webhook or a command is printed with these as escapes.

/// True if `character` can control a terminal, or reorder or hide the text around it.
#[must_use]
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_any_script_are_safe_and_what_steers_a_terminal_is_not() {
        assert!("Zoë – 修理 № 7 שלום".chars().all(|c| !is_unsafe(c)));
        for hostile in "\0\t\n\r\u{1b}\u{7f}\u{9b}\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}".chars()
        {
            assert!(is_unsafe(hostile), "{hostile:?}");
        }
    }
}
