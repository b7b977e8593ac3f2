"""A backend that counts what is asked of another one."""


class Counting:
    """A backend that counts operators which were not released yet."""

    def __init__(self, backend):
        self.backend, self.n_made, self.open = backend, 0, []

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def operator(self, *arguments, **options):
        self.n_made += 1
        self.open.append(self.backend.operator(*arguments, **options))
        return self.open[-1]

    def release(self, operator):
        self.open = [one for one in self.open if one is not operator]
        self.backend.release(operator)
