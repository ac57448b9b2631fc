"""What a person who runs halfscale can mend."""


class UserError(Exception):
    """Told in one line, without a traceback: it names what is wrong and what is allowed."""
