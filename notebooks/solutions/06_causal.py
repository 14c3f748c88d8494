# %% 06
answer = 13 + 14 + 15 + 16  # 768 keys come before the chunk, and each block sees its own tile

kb.check_answer("06", answer)
