# %% 03
one, two = (bare(S_kv=n * 8, h_q=32, h_kv=8, d=128, tile=8).peak_scratch for n in (1, 2))
answer = 1 + (2**20 - one) // (two - one)  # 78 752 for the first, 87 424 for each later one

kb.check_answer("03", answer)
