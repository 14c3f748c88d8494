# %% 12
line = "moved = tl.sub(heads[i], heads[i - 1])"  # heads[i - 1] is a view of the tile before

kb.check_answer("12", line)
