# %% 05
answer = (16_384 // 4) // 64  # a quarter of M, over the keys in a tile

kb.check_answer("05", answer)
